"""The dashboards of voxyard, made from code; `build.py` writes them as JSON."""
