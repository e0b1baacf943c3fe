"""Webhooks: which may be called, those that are due, and their signed delivery."""
