"""What the operator's tasks are made of: collect → parse → decide → render → act."""
