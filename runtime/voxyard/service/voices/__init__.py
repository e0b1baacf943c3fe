"""Voices that clients upload or mix, each of one key."""
