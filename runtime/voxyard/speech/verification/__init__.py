"""Verification of spoken audio: speech recognition and word error rate."""
