"""Usage: what each key had spoken, by day."""
