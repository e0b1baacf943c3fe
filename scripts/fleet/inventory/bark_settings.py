"""Speech service settings: paths in its container, and validation of the inventory's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import core_schema

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
CLUSTER_TOKEN_FILE = "/run/secrets/cluster-token"  # noqa: S105 - a path
HOST_CERTIFICATE, HOST_KEY = "/run/secrets/host-certificate", "/run/secrets/host-key"

_STOPPING = "seconds (15 of them, at most half, for closing down, the rest for running work)"
StopSeconds = Annotated[int, Between(_STOPPING, 2, 3600)]
"""Time of the speech service for an orderly end: in the least one, running work has a second."""
_NO_CLUSTER = "it follows from the roles head and worker; deploy/CLUSTER.md says how"
DEPLOYED = {
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
        if (instead := DEPLOYED.get(setting.key)) is not None:
            raise refusal(f"set by the deployment: {instead}")
        try:
            from_file(setting, value)
        except SettingsError as error:
            raise refusal(str(error)) from None
        return value

    return checked


ServiceSettings = Annotated[Mapping[str, Mapping[str, object]], _Sections()]
