"""The service's settings: each is written here once; flags, variables, YAML keys and documentation follow."""

from __future__ import annotations

from pathlib import Path

from voxyard.settings import Section, setting

DEFAULT_VOICES = {
    "alloy": "v2/en_speaker_6",
    "ash": "v2/en_speaker_0",
    "ballad": "v2/en_speaker_1",
    "cedar": "v2/en_speaker_8",
    "coral": "v2/en_speaker_9",
    "echo": "v2/en_speaker_2",
    "fable": "v2/en_speaker_3",
    "marin": "v2/en_speaker_9",
    "nova": "v2/en_speaker_9",
    "onyx": "v2/en_speaker_5",
    "sage": "v2/en_speaker_4",
    "shimmer": "v2/en_speaker_9",
    "verse": "v2/en_speaker_7",
}
"""OpenAI's names of voices → ours; only `v2/en_speaker_9` is a woman's voice among Bark's English presets."""


class ServiceSection(Section):
    """Service: listen address, limits, storage and retention."""

    group = "SERVICE"

    host: str = setting("127.0.0.1", "Address to listen on; any but loopback needs API keys.")
    port: int = setting(8080, "Port to listen on; 0 takes a free one and says which.", ge=0, le=65535)
    data_dir: Path = setting(Path("voxyard-data"), "Directory of the documents and their audio.")
    keys: Path | None = setting(
        None, "File of the API keys, hashed; `voxyard keys new NAME` writes a line.", default_text="none are asked for"
    )
    voices: Path | None = setting(
        None, "YAML file with further names for voices.", flag="--voice-names", default_text="OpenAI's names"
    )
    allowed_origins: str = setting("", "Origins of web pages that may call it, with commas between.")
    max_upload_mib: int = setting(50, "Largest document.", flag="--max-upload", unit="MiB", ge=1, le=1024)
    max_characters: int = setting(2_000_000, "Longest text of a document.", unit="characters", ge=1)
    max_input: int = setting(4096, "Longest text of a speech request.", unit="characters", ge=1)
    max_documents: int = setting(1000, "Documents that wait or are spoken; further ones are refused for now.", ge=1)
    max_chunks: int = setting(100_000, "Chunks of these documents together.", ge=1)
    max_requests: int = setting(64, "Speech requests that wait or are spoken at a time.", ge=1)
    active_documents: int = setting(8, "Documents that are in the workers' queue at a time.", ge=1)
    rate_limit: int = setting(600, "Requests that a key may make in a minute; 0 sets no limit.", ge=0)
    retention_hours: float = setting(168.0, "Finished documents are deleted after so long.", unit="h", gt=0)
    disk_quota_mib: int = setting(20_480, "Disk space for audio.", flag="--disk-quota", unit="MiB", ge=1)
    disk_reserve_mib: int = setting(
        512, "Space on the disk that is left alone: with less, new documents are refused.", flag="--disk-reserve",
        unit="MiB", ge=0,
    )  # fmt: skip
    webhook_hosts: str = setting("", "Hosts that completion webhooks may go to, with commas between.")
    webhook_secret: Path | None = setting(
        None, "File with the secret that signs webhooks.", default_text="webhooks are refused"
    )
    stop_seconds: float = setting(10.0, "Time for open requests when the service ends.", unit="s", ge=0)
    drain_seconds: float = setting(
        60.0, "Time, from the same moment, for the chunks of documents that the workers have in hand.", unit="s", ge=0
    )

    def origins(self) -> tuple[str, ...]:
        """The origins of `allowed_origins`."""
        return _listed(self.allowed_origins)

    def hooks(self) -> tuple[str, ...]:
        """The hosts of `webhook_hosts`, lower case."""
        return tuple(host.lower() for host in _listed(self.webhook_hosts))


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
