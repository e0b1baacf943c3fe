"""Text to chunks: sentences, abbreviations, estimated durations."""
