"""Facts about a host: shell commands and their parsers."""
