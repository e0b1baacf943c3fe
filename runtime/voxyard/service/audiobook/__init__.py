"""Audiobooks: chapters of documents, times of words, subtitles, the audiobook file, chunks spoken again."""
