"""Deploys and rolls back releases on one host or many."""
