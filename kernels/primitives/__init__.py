"""What kernels share: tile input and output, masking, the online softmax, recording, launching, tuned tiles."""
