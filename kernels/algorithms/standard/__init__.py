"""Standard attention, tile by tile in torch."""
