"""What kernels share: tile input and output, masks, the online softmax, recording, launching, tuned tiles."""
