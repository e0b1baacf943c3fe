"""Preflight checks: reasons against running on a host, from its facts."""
