"""Row-wise attention, tile by tile in torch."""
