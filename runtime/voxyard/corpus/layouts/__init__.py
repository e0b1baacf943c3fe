"""Layouts of folders with recordings and their texts, as the common corpora have them."""
