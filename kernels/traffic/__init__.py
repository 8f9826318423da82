"""Bytes and FLOPs of attention: what every pass has to move and compute, and what torch's operations move."""
