"""Uploaded files: stored with their document, and read as its first step."""
