"""Servers that speak OpenAI's speech API as the workers of a pool."""
