"""Worker pool: scheduler, worker processes, retries, metrics."""
