#!/usr/bin/python3
"""Minimal wget for health checks: `wget -q -O /dev/null URL`."""

import sys
import urllib.request

try:
    with urllib.request.urlopen(sys.argv[-1], timeout=5) as answer:  # noqa: S310 - the compose file says http
        answer.read()
except OSError as error:
    sys.exit(f"wget: {error}")
