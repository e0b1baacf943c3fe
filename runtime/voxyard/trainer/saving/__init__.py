"""Saving of a run's state beside its training."""
