"""Catalogue routes: models, voices and workers."""

from __future__ import annotations

import json

from voxyard.service.routes import serializers
from voxyard.service.routes.inputs import AppStateDep, ClientDep
from voxyard.service.routes.openapi import Router, errors
from voxyard.service.routes.schemas import AudioModelsOut, GpuOut, ModelOut, ModelsOut, VoicesOut, WorkerOut, WorkersOut
from voxyard.service.state import AppState
from voxyard.speech.reading.reader import READING_VERSION

router = Router(tags=["catalogue"])


@router.get(
    "/v1/models",
    operation_id="list_models",
    summary="List models",
)
def list_models(state: AppStateDep) -> ModelsOut:
    """One model, under its own name and its aliases. `notes` has warnings about its audio."""
    return ModelsOut(data=[_model(name, state) for name in state.models.listed()])


@router.get(
    "/v1/models/{model}",
    operation_id="retrieve_model",
    summary="Retrieve a model",
    responses=errors(404),
)
def retrieve_model(model: str, state: AppStateDep) -> ModelOut:
    """The model of this name."""
    state.models.check(model)
    return _model(model, state)


@router.get(
    "/v1/audio/models",
    operation_id="list_audio_models",
    summary="List models that speak",
)
def list_audio_models(state: AppStateDep) -> AudioModelsOut:
    """The models of `GET /v1/models`, in the form that Open WebUI reads."""
    return AudioModelsOut(models=[_model(name, state) for name in state.models.listed()])


@router.get(
    "/v1/audio/voices",
    operation_id="list_voices",
    summary="List voices",
)
def list_voices(state: AppStateDep, client: ClientDep) -> VoicesOut:
    """The engine's own names first, then their aliases, then those that this key has uploaded or mixed."""
    uploads = state.frontend.voice_files is not None and state.section.max_voices > 0
    return VoicesOut(voices=[serializers.voice(each) for each in state.voices.all(client.name)], uploads=uploads)


@router.get(
    "/v1/workers",
    operation_id="list_workers",
    summary="List GPUs and workers",
)
def list_workers(state: AppStateDep) -> WorkersOut:
    """GPUs of this host as reported by the driver, and the state of each worker."""
    return WorkersOut(
        gpus=[
            GpuOut(
                index=gpu.index,
                name=gpu.name,
                uuid=gpu.uuid,
                memory_total_mib=gpu.memory_total_mib,
                memory_free_mib=gpu.memory_free_mib,
                problem=gpu.problem,
            )
            for gpu in state.gpus()
        ],
        workers=[
            WorkerOut(
                device=worker.device,
                state=worker.state,
                pid=worker.pid,
                processes=worker.processes,
                reason=worker.reason or None,
                facts={} if worker.ready is None else json.loads(json.dumps(dict(worker.ready.facts), default=str)),
            )
            for worker in state.pool.workers()
        ],
    )


def _model(name: str, state: AppState) -> ModelOut:
    return ModelOut(
        id=name, name=name, created=0, owned_by="voxyard", notes=list(state.frontend.notes), reading=READING_VERSION
    )
