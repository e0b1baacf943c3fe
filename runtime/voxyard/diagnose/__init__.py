"""Why is it slow: the trainer's stages measured, judged, and answered with flags to try. Loads no TensorFlow."""
