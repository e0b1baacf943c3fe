"""Inventory of clusters, one of them with a Ray cluster, and images that were pushed, for tests of `fab render`."""

from __future__ import annotations

from collections.abc import Callable

from fleet.images.image import LocalImage

REGISTRY = "registry.example:5000/speech"
STORE = "postgresql://voxyard@db.example/voxyard"
KEY_HASH = "5e" * 32
TOKEN = "7a" * 32
INVENTORY = f"""
defaults:
  registry: {REGISTRY}
  secrets: secrets.yaml
  bark: {{port: 8080, weights: weights, settings: {{bark: {{batch_size: 4}}}}}}
clusters:
  lab:
    roles: [bark, trainer]
    gpu_memory: 24564
    storage_class: fast
    monitoring_labels: {{release: prometheus}}
    bark: {{replicas: 2, gpus: 2, stop_seconds: 90, store: "{STORE}", shelf: s3://voices/lab}}
  east:
    roles: [bark]
    namespace: speech
    bark: {{gpus: 0}}
  pool:
    roles: [head, worker, bark]
    storage_class: fast
    worker: {{replicas: 3, gpus: 2, memory: 64Gi, storage_class: shared}}
  wide:
    roles: [bark, trainer]
    gpu_memory: 24564
    gpu_runtime_class: nvidia-cdi
    gpu_claim: one-gpu
    pull_secret: login
    host_pid: true
    bark:
      replicas: 2
      store: postgresql://voxyard@db.example/wide
      shelf: audio
      weights_class: nfs
      weights_from: suno/bark
      nodes: {{nvidia.com/gpu.product: NVIDIA-L4}}
      scaling: {{most: 6, chunks: 30}}
    trainer: {{queue: speech}}
"""
TRAIN = "data: {train_data: /corpora/LJ, data_gpu: 0, model_gpu: 1}\ntraining: {max_steps: 100}\n"
TRAINER = """#!/bin/bash
[ "$2" = --exit ] && exit "$3"
trap 'echo saved; kill $!; exit 0' TERM
echo trains
sleep 30 >/dev/null &
wait
"""
"""Double of `voxyard train` as a program: trains until SIGTERM, or ends with the code after --exit."""
Render = Callable[..., tuple[int, str]]


def image(role: str, registry: str | None = REGISTRY) -> LocalImage:
    content = f"{sum(role.encode()):064x}"
    digest = f"{registry}/voxyard-{role}@sha256:{content}" if registry else None
    return LocalImage(f"sha256:{content}", ("sha256:1",), 1, f"voxyard-{role}", digest)
