"""The machine at hand: CUDA or Triton's interpreter, facts about GPUs, memory, clocks. Knows nothing of attention."""
