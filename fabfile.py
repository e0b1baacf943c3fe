"""Fabric tasks: `fab --list`, in any folder of the checkout."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "scripts"))

from tasks.certificates import certificates
from tasks.check import check
from tasks.deploy import deploy, drain, plan, rollback, status, unlock
from tasks.gpus import gpus
from tasks.images import images, images_lock
from tasks.monitoring import monitoring
from tasks.prove import prove
from tasks.provision import provision
from tasks.render import render
from tasks.runs import fetch, logs, runs, stop, train

__all__ = [
    "certificates",
    "check",
    "deploy",
    "drain",
    "fetch",
    "gpus",
    "images",
    "images_lock",
    "logs",
    "monitoring",
    "plan",
    "prove",
    "provision",
    "render",
    "rollback",
    "runs",
    "status",
    "stop",
    "train",
    "unlock",
]
