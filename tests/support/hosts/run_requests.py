"""Sample run request, and a host's release for it."""

from __future__ import annotations

from pathlib import Path

import yaml
from fleet_doubles import uuid

from fleet.runs.config import RunSettings
from fleet.runs.corpus_sync import RunInput
from fleet.runs.files import DeployedRelease, RunRequest

COMPOSE = (Path(__file__).resolve().parents[3] / "deploy/compose/trainer.yaml").read_bytes()
PLAN = yaml.safe_dump(
    {
        "workloads": [
            {"workload": "trainer", "role": "data", "gpu": uuid(1)},
            {"workload": "trainer", "role": "model", "gpu": uuid(0)},
            {"workload": "bark", "role": "bark", "gpu": uuid(2)},
        ],
        "data": {"data_gpu": uuid(1), "model_gpu": uuid(0)},
        "training": {"enable_memory_isolation": True, "data_gpu_memory": 8192, "model_gpu_memory": 16384},
    }
).encode()
RELEASE = DeployedRelease(
    release="0123456789ab",
    image="voxyard-trainer:abcdefabcdef",
    uid=1000,
    gid=1001,
    address="192.0.2.11",
    port=9411,
    stop_seconds=120,
    plan=PLAN,
    compose=COMPOSE,
    gpus=(uuid(0), uuid(1), uuid(2)),
    memory_mib=40960,
)
CORPUS = RunInput("demo", "0123456789ab", "recordings", 3, 1000)
REQUEST = RunRequest("demo-1", "gpu-01", RunSettings(b"model: {size: tiny}\n"), {"train": CORPUS}, (), "me@here")
