"""A batch of three clips."""

from __future__ import annotations

import logical_devices  # noqa: F401 (first: it sets TensorFlow up)
import pytest
from voices import Raw, features_of, raw_batch


@pytest.fixture(scope="session")
def batch() -> Raw:
    """Three clips of different lengths with their features."""
    return features_of(raw_batch([(40, 12), (31, 9), (17, 14)], 40, 16))
