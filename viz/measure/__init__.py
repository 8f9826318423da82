"""Pieces of the Measure page: controls, sources of the numbers, live sweeps, charts, roofline and traffic."""
