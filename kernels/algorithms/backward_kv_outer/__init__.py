"""The backward pass with the key tile outside, as one kernel: dQ travels."""
