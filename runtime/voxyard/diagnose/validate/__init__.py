"""Validation of a training setup before a long run: checks and checklist."""
