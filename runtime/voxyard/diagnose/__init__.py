"""Diagnosis of a slow training: stages measured, judged, and answered with flags to try. Loads no TensorFlow."""
