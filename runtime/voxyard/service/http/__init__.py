"""HTTP middleware: admission, limits, errors, access log, metrics."""
