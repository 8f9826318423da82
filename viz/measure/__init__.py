"""Pieces of the Measure page: its controls, where the numbers come from, live sweeps, charts, roofline and traffic."""
