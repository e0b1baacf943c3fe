"""Authentication: API keys and browser sessions."""
