"""Training runs on hosts: start, monitor, stop, resume, fetch."""
