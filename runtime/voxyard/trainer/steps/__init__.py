"""Steps of a run: the updates that make one up, and those that a device has been given and not ended."""
