"""Stress test: the training pipeline at full speed against its targets."""
