"""Facts about a host: the commands that ask for them, and the parsers of the answers."""
