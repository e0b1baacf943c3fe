"""Audiobooks: chapters of documents, times of words, subtitles."""
