"""Audio: joining, tempo, encoders, containers."""
