"""The public call: `flash_attention`, with autograd, and the layer around it."""
