"""Training runs on hosts: begun, watched, stopped, fetched."""
