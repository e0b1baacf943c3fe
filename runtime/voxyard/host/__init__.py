"""Facts about one machine: its GPUs and their links, memory limits, CUDA device numbering, page cache."""
