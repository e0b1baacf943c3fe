"""Building blocks of the operator's tasks: collect → parse → decide → render → act."""
