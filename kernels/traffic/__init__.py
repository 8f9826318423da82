"""Bytes and FLOPs of attention: what every pass must move and compute, and what torch's operations move."""
