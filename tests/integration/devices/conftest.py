"""Two logical CPU devices for every test of this folder."""

import logical_devices  # noqa: F401 (first: it sets TensorFlow up)
