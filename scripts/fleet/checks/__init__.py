"""Preflight checks of a host, from its facts."""
