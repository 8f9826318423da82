"""What the worker runs for a lesson of Learn: the gradients of a small layer, by torch and by our kernels."""
