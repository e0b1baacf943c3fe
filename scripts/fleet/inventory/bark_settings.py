"""Speech service settings: validation of the inventory's values, and the settings file of a host."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import yaml
from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import core_schema

from fleet.inventory.gateway_settings import LAME_DUCK_SECONDS
from fleet.inventory.types import Between, refusal
from voxyard.bark.config import BarkConfig
from voxyard.service.config import ServiceSection
from voxyard.settings import Section, Setting, SettingsError, settings_of
from voxyard.settings.values import from_file
from voxyard.speech.config import SpeechSection

BARK_FILE = "settings-bark.yaml"
VOICE_NAMES = "voices.yaml"
WEIGHTS = "/var/lib/voxyard/weights"
VOICES = "/var/lib/voxyard/voices"
DATA = "/var/lib/voxyard/bark"
KEYS = "/run/secrets/bark-api-keys"
WEBHOOK_SECRET = "/run/secrets/bark-webhook-secret"  # noqa: S105 - a path

SESSION_SECRET = "/run/secrets/bark-session-secret"  # noqa: S105 - a path
CLUSTER_TOKEN = "/run/secrets/cluster-token"  # noqa: S105 - a path
HOST_CERTIFICATE, HOST_KEY = "/run/secrets/host-certificate", "/run/secrets/host-key"

_CLOSING_SECONDS = 15  # reserved for idle workers to end and documents to be saved
_STOPPING = "seconds (15 of them, at most half, for closing down, the rest for running work)"
StopSeconds = Annotated[int, Between(_STOPPING, 2, 3600)]
"""Time of the speech service for an orderly end: in the least one, running work has a second."""
_NO_CLUSTER = "use ray.cluster; deploy/CLUSTER.md says how"
_DEPLOYED = {
    "service.host": "it is set from bark.address",
    "service.port": "use bark.port",
    "service.data_dir": "it is below ~/.voxyard/data on the host",
    "service.store": "use bark.store",
    "service.shelf": "use bark.shelf",
    "service.keys": "add bark-api-keys to the secrets file",
    "service.webhook_secret": "add bark-webhook-secret to the secrets file",
    "service.voices": f"add {VOICE_NAMES} to the directory of bark.voices",
    "service.instance": "it is the host's name",
    "service.session_secret": "add bark-session-secret to the secrets file",
    "service.tls_certificate": "add host-certificate to the secrets file; deploy/README.md says how",
    "service.tls_key": "add host-key to the secrets file; deploy/README.md says how",
    "service.stop_seconds": "use bark.stop_seconds",
    "service.drain_seconds": "use bark.stop_seconds",
    "speech.gpus": "it is the GPUs of the host plan",
    "speech.pool": _NO_CLUSTER,
    "speech.cluster": _NO_CLUSTER,
    "speech.cluster_token": _NO_CLUSTER,
    "speech.cluster_wait": _NO_CLUSTER,
    "bark.model": "use bark.weights",
    "bark.device": "it is the GPUs of the host plan, or the CPU",
    "bark.gpu_memory": "use memory_policy",
    "bark.voices": "use bark.voices, beside the settings",
}


class BarkFile(Section):
    """Settings file of `voxyard serve --config`."""

    service: ServiceSection = Field(default_factory=ServiceSection)
    speech: SpeechSection = Field(default_factory=SpeechSection)
    bark: BarkConfig = Field(default_factory=BarkConfig)


@dataclass(frozen=True, slots=True)
class DeploymentValues:
    """Service settings that the host plan and the release determine."""

    gpus: Mapping[str, int]  # MiB per worker, by GPU UUID; empty: CPU
    keys: bool
    webhook_secret: bool
    voices: bool
    voice_names: bool
    stop_seconds: int  # until the container is killed, after the lame-duck time
    instance: str = ""
    session_secret: bool = False
    lame_duck_seconds: int = 0
    tls: bool = False
    store: str | None = None
    shelf: str | None = None  # as the container sees it
    cluster: str | None = None  # HOST:PORT of the head of its Ray cluster; None: its workers are on its host


def start_seconds(settings: Mapping[str, Mapping[str, object]]) -> int:
    """Start timeout of a worker, in seconds."""
    given = _without_nulls(settings).get("speech", {}).get("start_timeout", SpeechSection().start_timeout)
    return round(given) if isinstance(given, int | float) else 0


def lame_duck_seconds(settings: Mapping[str, Mapping[str, object]], *, behind_gateway: bool) -> int:
    """Seconds at a stop in which the service still accepts requests, for a gateway to notice; rounded up."""
    given = _without_nulls(settings).get("service", {}).get("lame_duck_seconds")
    if isinstance(given, int | float):
        return math.ceil(given)
    return LAME_DUCK_SECONDS if behind_gateway else 0


def working_seconds(stop_seconds: int) -> int:
    """Seconds to finish running work, at least 1: fewer than `stop_seconds`, after which the container is killed."""
    return stop_seconds - min(_CLOSING_SECONDS, -(-stop_seconds // 2))


def render(settings: Mapping[str, Mapping[str, object]], deployment: DeploymentValues) -> bytes:
    """Settings file of the service on one host, as YAML."""
    own = working_seconds(deployment.stop_seconds)
    document: dict[str, dict[str, object]] = {
        "service": {"data_dir": DATA, "stop_seconds": own, "drain_seconds": own},
        "speech": {},
        "bark": {"model": WEIGHTS, "device": "cuda" if deployment.gpus else "cpu"},
    }
    names = ("store", "shelf", "instance")
    document["service"] |= {name: value for name in names if (value := getattr(deployment, name))}
    if deployment.lame_duck_seconds:
        document["service"]["lame_duck_seconds"] = deployment.lame_duck_seconds
    if deployment.session_secret:
        document["service"]["session_secret"] = SESSION_SECRET
    if deployment.tls:
        document["service"] |= {"tls_certificate": HOST_CERTIFICATE, "tls_key": HOST_KEY}
    if deployment.keys:
        document["service"]["keys"] = KEYS
    if deployment.webhook_secret:
        document["service"]["webhook_secret"] = WEBHOOK_SECRET
    if deployment.voice_names:
        document["service"]["voices"] = f"{VOICES}/{VOICE_NAMES}"
    if deployment.voices:
        document["bark"]["voices"] = VOICES
    if deployment.gpus:
        needed = SpeechSection().worker_memory_mib
        document["speech"]["max_parallel_tts_workers"] = len(deployment.gpus)
        document["speech"]["worker_memory_mib"] = min(needed, *deployment.gpus.values())
        document["bark"]["gpu_memory"] = ",".join(f"{uuid}={mib}" for uuid, mib in sorted(deployment.gpus.items()))
    if deployment.cluster:
        document["speech"] |= {"pool": "ray", "cluster": deployment.cluster, "cluster_token": CLUSTER_TOKEN}
    for section, values in _without_nulls(settings).items():
        document[section] |= values
    return yaml.safe_dump({name: values for name, values in document.items() if values}, sort_keys=False).encode()


def _without_nulls(settings: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, object]]:
    """Settings without null values, which mean the default."""
    return {
        section: {name: value for name, value in values.items() if value is not None}
        for section, values in settings.items()
    }


class _Sections:
    """Values of `bark.settings`, by section and key: what the service itself would accept."""

    def __init__(self) -> None:
        self.keys: dict[str, dict[str, bool]] = {name: {} for name in BarkFile.model_fields}  # null is the default
        for setting in settings_of(BarkFile):
            self.keys[setting.section][setting.name] = True

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        def any_of(values: Mapping[str, core_schema.CoreSchema]) -> core_schema.CoreSchema:
            optional = {name: core_schema.typed_dict_field(each, required=False) for name, each in values.items()}
            return core_schema.typed_dict_schema(optional)

        sections: dict[str, dict[str, core_schema.CoreSchema]] = {name: {} for name in self.keys}
        for setting in settings_of(BarkFile):
            checked = core_schema.no_info_plain_validator_function(_check(setting))
            sections[setting.section][setting.name] = checked
        return any_of({name: any_of(values) for name, values in sections.items()})


def _check(setting: Setting) -> Callable[[object], object]:
    def checked(value: object) -> object:
        if (instead := _DEPLOYED.get(setting.key)) is not None:
            raise refusal(f"set by the deployment: {instead}")
        try:
            from_file(setting, value)
        except SettingsError as error:
            raise refusal(str(error)) from None
        return value

    return checked


ServiceSettings = Annotated[Mapping[str, Mapping[str, object]], _Sections()]
