"""Model names that clients may use: the engine's own, OpenAI's, and the operator's; a `*` stands for any ending."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from voxyard.service.config import DEFAULT_MODELS
from voxyard.service.errors import NotFoundError, ServiceError
from voxyard.service.names_file import read_names, shown
from voxyard.speech.engine import EngineSpec


class ModelNotFoundError(NotFoundError):
    """No model of this name."""

    code = "model_not_found"


class ModelNames:
    """Names of the service's one model. An alias that ends in `*` stands for all names with that beginning."""

    def __init__(self, own: str, aliases: Collection[str]) -> None:
        self.own = own
        self._exact = tuple(sorted({alias for alias in aliases if not alias.endswith("*")} - {own}))
        self._beginnings = tuple(sorted({alias[:-1] for alias in aliases if alias.endswith("*")}))

    def listed(self) -> tuple[str, ...]:
        """The model's own name and the aliases that are whole names."""
        return (self.own, *self._exact)

    def check(self, name: str) -> None:
        """Checks that this is a name of the model.

        Raises:
            ModelNotFoundError: it is not; the message lists the names.
        """
        if name == self.own or name in self._exact or name.startswith(self._beginnings):
            return
        known = ", ".join((*self._exact, *(f"{beginning}*" for beginning in self._beginnings)))
        raise ModelNotFoundError(
            f"no model {shown(name)}: this service has {self.own}, also under the names {known}", parameter="model"
        )


def open_models(engine: EngineSpec, path: Path | None) -> ModelNames:
    """The names of the engine's model: its own, OpenAI's, and those of the operator's file.

    Raises:
        ServiceError: the file cannot be read, or a name stands for a model that the service does not have.
    """
    own = model_name(engine)
    further = {} if path is None else read_names(path, "model", f"kokoro*: {own}")
    for alias, model in further.items():
        if model != own:
            raise ServiceError(f"{path}: {alias}: the service has no model {shown(model)}; its model is {own}")
        if "*" in alias[:-1]:
            raise ServiceError(f"{path}: {alias}: a * may stand at the end alone, as in `kokoro*: {own}`")
    return ModelNames(own, (*DEFAULT_MODELS, *further))


def model_name(engine: EngineSpec) -> str:
    """Model name of the engine."""
    return engine.model
