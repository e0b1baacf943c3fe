"""Reports of a run: at its end, and to a tracking server on the way."""
