"""Voices: a trained model as one directory, and the speech room's engine that speaks with it."""
