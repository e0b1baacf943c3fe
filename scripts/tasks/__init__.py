"""The tasks an operator types, a module for each concern; fabfile.py collects them."""
