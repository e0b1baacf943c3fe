"""Fabric tasks, one module per concern; fabfile.py collects them."""
