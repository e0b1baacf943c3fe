"""Training over hosts: their addresses, their meeting before the start, and the mean of their tensors."""
