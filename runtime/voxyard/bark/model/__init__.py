"""Bark's networks on PyTorch: transformers, stages, sampling, codec."""
