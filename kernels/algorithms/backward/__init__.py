"""The backward pass as three kernels."""
