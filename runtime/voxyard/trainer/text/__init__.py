"""Text front end of a run: units, language and reading of its texts."""
