"""Inventory: hosts, their settings, secrets."""
