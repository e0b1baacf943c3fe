"""Judges of a run's validation: word error rate and DNSMOS of sentences that the model speaks."""
