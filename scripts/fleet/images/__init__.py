"""Images on the operator's machine: built, pinned, listed, written out."""
