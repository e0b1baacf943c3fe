"""Devices of a run: placement, memory limits, TensorFlow's set-up."""
