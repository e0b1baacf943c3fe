"""How a host is brought to a release, and a fleet of them, and back."""
