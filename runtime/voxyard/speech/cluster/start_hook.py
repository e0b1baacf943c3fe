"""Hook of `ray start` (RAY_START_HOOK): turns off what its command line cannot, and ends the node with its owner."""

from __future__ import annotations

import os
import signal
from typing import Any

from voxyard.host.signal_handlers import end_with

OWNER = "VOXYARD_NODE_OWNER"  # environment variable: process id of the voxyard that runs the node


def prepare(parameters: Any, _head: bool) -> None:
    """Start no Ray client server, which runs the code of all who reach it; and end the node when its owner is killed.

    Raises:
        SystemExit: the owner has ended already.
    """
    parameters.ray_client_server_port = None
    if not end_with(int(os.environ[OWNER]), signal.SIGTERM):  # on which Ray ends all of the node
        raise SystemExit("the voxyard that started this node has ended")
