"""Streaming responses: speech requests and audio that is still being made."""
