"""voxyard runs speech models on a company's own GPU hosts; importing it loads nothing heavy."""

__version__ = "0.1.0"
