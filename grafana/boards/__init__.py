"""Dashboards of voxyard as code; `build.py` writes them as JSON."""
