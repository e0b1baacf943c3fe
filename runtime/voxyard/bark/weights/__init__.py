"""Bark's weights: download, checksums, loading, a tiny random checkpoint for tests."""
