"""Catalogue routes: models, voices and workers."""

from __future__ import annotations

import json

from fastapi import APIRouter

from voxyard.service.routes.dependencies import TheServices, TheVoices
from voxyard.service.routes.openapi import errors
from voxyard.service.routes.schemas import GpuOut, ModelOut, ModelsOut, VoiceOut, VoicesOut, WorkerOut, WorkersOut
from voxyard.service.state import Services
from voxyard.service.voice_names import MODEL_ALIASES, check_model, model_name

router = APIRouter(tags=["catalogue"])


@router.get(
    "/v1/models",
    operation_id="list_models",
    summary="The models",
)
def list_models(services: TheServices) -> ModelsOut:
    """One model, under its own name and under OpenAI's. `notes` say what a listener must know."""
    names = (model_name(services.frontend.engine), *MODEL_ALIASES)
    return ModelsOut(data=[_model(name, services) for name in names])


@router.get(
    "/v1/models/{model}",
    operation_id="retrieve_model",
    summary="A model",
    responses=errors(404),
)
def retrieve_model(model: str, services: TheServices) -> ModelOut:
    """The model of this name."""
    check_model(model, services.frontend)
    return _model(model, services)


@router.get(
    "/v1/audio/voices",
    operation_id="list_voices",
    summary="The voices",
)
def list_voices(voices: TheVoices) -> VoicesOut:
    """The engine's own names first, then other names for them."""
    return VoicesOut(
        voices=[
            VoiceOut(id=voice.name, name=voice.name, language=voice.language, alias_of=voice.alias_of)
            for voice in voices.all()
        ]
    )


@router.get(
    "/v1/workers",
    operation_id="list_workers",
    summary="The GPUs and the workers",
)
def list_workers(services: TheServices) -> WorkersOut:
    """GPUs of this host as the driver reports them, and the state of each worker of the pool."""
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
            for gpu in services.gpus()
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
            for worker in services.pool.workers()
        ],
    )


def _model(name: str, services: Services) -> ModelOut:
    return ModelOut(id=name, created=0, owned_by="voxyard", notes=list(services.frontend.notes))
