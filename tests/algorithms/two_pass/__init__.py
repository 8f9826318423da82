"""Attention in two passes over the keys."""
