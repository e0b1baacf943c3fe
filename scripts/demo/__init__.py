"""The demo: the parts of voxyard on one machine without a GPU, one after another, and a page of what they made."""
