"""The machine: CUDA or Triton's interpreter, facts about GPUs, memory, clocks. Nothing about attention."""
