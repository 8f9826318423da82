"""What Triton's interpreter sees of the memory of any kernel: its faults, and what it moved.

The faults are those that NVIDIA's compute-sanitizer looks for on a GPU.
"""
