"""Strategy `auto`: timed trials of the candidates, and their cached result."""
