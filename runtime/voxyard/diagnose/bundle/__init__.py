"""Support archive: collects facts, logs and settings of a host, redacted."""
