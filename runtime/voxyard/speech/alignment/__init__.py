"""Forced alignment of spoken audio: when each word of a known text is said."""
