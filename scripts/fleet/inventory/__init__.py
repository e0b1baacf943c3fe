"""Inventory: the operator's hosts, their settings, the secrets."""
