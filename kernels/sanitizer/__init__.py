"""What Triton's interpreter sees of the memory of any kernel: its faults.

The faults are those that NVIDIA's compute-sanitizer looks for on a GPU.
"""
