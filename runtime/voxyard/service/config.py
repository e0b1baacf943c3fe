"""Service settings; flags, environment variables, YAML keys and the reference are generated from them."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import field_validator

from voxyard.settings import Section, path_of, setting

DEFAULT_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts", "tts-1*", "gpt-4o-mini-tts*")
"""OpenAI's model names, and any with these beginnings, such as `gpt-4o-mini-tts-2025-03-20`."""

PATH_PREFIX = r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+"
"""Pattern of a path before all paths. An empty segment would begin another host's name, and dots would go up."""


class ServiceSection(Section):
    """Service: listen address, limits, storage and retention."""

    group = "SERVICE"

    host: str = setting("127.0.0.1", "Address to listen on; any other than loopback requires API keys.")
    port: int = setting(8080, "Port to listen on; 0 takes a free port and prints it.", ge=0, le=65535)
    data_dir: Path = setting(Path("voxyard-data"), "Directory of the database and the audio files.")
    store: str | None = setting(
        None, "Database of documents: a path, or `postgresql://USER@HOST/NAME` (password: PGPASSFILE).",
        default_text="DATA_DIR/documents.sqlite",
    )  # fmt: skip
    shelf: str | None = setting(
        None, "Place of the audio files, the same for all services on a database: a directory, or `s3://BUCKET/PREFIX`.",
        default_text="DATA_DIR/audio",
    )  # fmt: skip
    claim_seconds: float = setting(
        15.0, "Time after which another service on the database takes over the documents of one that is gone.",
        unit="s", ge=1, le=3600,
    )  # fmt: skip
    keys: Path | None = setting(
        None, "File of the hashed API keys; `voxyard keys new NAME` adds one.", default_text="no API keys required"
    )
    tls_certificate: Path | None = setting(
        None, "PEM file with a certificate and its chain: the service speaks HTTPS only, and reads renewed files anew.",
        default_text="plain HTTP",
    )  # fmt: skip
    tls_key: Path | None = setting(None, "PEM file with the key of the certificate.")
    voices: Path | None = setting(
        None, "YAML file of further voice names.", flag="--voice-names", default_text="OpenAI's names"
    )
    models: Path | None = setting(
        None, "YAML file of further model names; a name may end in `*`.", flag="--model-names",
        default_text="OpenAI's names",
    )  # fmt: skip
    root_path: str = setting(
        "", "Path that a gateway strips, such as `/speech`; a gateway of FORWARDED_ALLOW_IPS may say it in "
        "`X-Forwarded-Prefix`.",
    )  # fmt: skip
    allowed_origins: str = setting("", "Comma-separated origins that may call the API (CORS); `*` for any.")
    max_upload_mib: int = setting(
        50, "Maximum size of an uploaded document.", flag="--max-upload", unit="MiB", ge=1, le=1024
    )
    max_characters: int = setting(2_000_000, "Maximum length of a document's text.", unit="characters", ge=1)
    max_input: int = setting(4096, "Maximum length of a speech request's text.", unit="characters", ge=1)
    max_documents: int = setting(1000, "Maximum number of pending documents; further ones get 429.", ge=1)
    max_chunks: int = setting(100_000, "Maximum number of chunks of pending documents.", ge=1)
    max_requests: int = setting(64, "Maximum number of concurrent speech requests; further ones get 429.", ge=1)
    max_voices: int = setting(
        50, "Maximum number of uploaded voices of an API key, of 256 KiB each; 0 takes none.", ge=0, le=10_000
    )
    active_documents: int = setting(8, "Maximum number of documents in the worker pool at a time.", ge=1)
    rate_limit: int = setting(600, "Requests per minute and API key; 0 disables the limit.", ge=0)
    retention_hours: float = setting(168.0, "Time after which finished documents are deleted.", unit="h", gt=0)
    disk_quota_mib: int = setting(20_480, "Maximum disk space for audio.", flag="--disk-quota", unit="MiB", ge=1)
    disk_reserve_mib: int = setting(
        512, "Free disk space to keep; with less, new documents get 507.", flag="--disk-reserve",
        unit="MiB", ge=0,
    )  # fmt: skip
    webhook_hosts: str = setting("", "Comma-separated hosts that webhooks may be sent to.")
    webhook_secret: Path | None = setting(
        None, "File with the secret that signs webhooks.", default_text="webhooks are disabled"
    )
    instance: str = setting(
        "", "Name of this service among several behind a gateway; the ids of its documents begin with its prefix.",
        default_text="ids are random",
    )  # fmt: skip
    session_secret: Path | None = setting(
        None, "File with the secret that signs browser sessions, the same for all services behind a gateway.",
        default_text="a secret of its own in the data directory",
    )  # fmt: skip
    aligner: str | None = setting(
        None, "Aligner that finds the times of words, as package.module:factory; "
        "voxyard.speech.alignment.pocketsphinx:aligner is for English.", default_text="estimated from lengths",
    )  # fmt: skip
    idle_release: float | None = setting(
        None, "Time without anything to speak after which the workers end and their GPUs are free; the next chunk "
        "starts one again, and waits while it loads its model.", default_text="workers stay", unit="s", gt=0,
    )  # fmt: skip
    keep_warm: int = setting(0, "Workers that `--idle-release` leaves.", ge=0)
    lame_duck_seconds: float = setting(
        0.0, "At shutdown, time in which `/readyz` answers 503 and all is still accepted, for a gateway to notice.",
        unit="s", ge=0,
    )  # fmt: skip
    stop_seconds: float = setting(
        10.0, "Time limit for open requests at shutdown, after the lame-duck time.", unit="s", ge=0
    )
    drain_seconds: float = setting(
        60.0, "Time limit for document chunks in progress at shutdown, from the same moment.", unit="s", ge=0
    )

    @field_validator("root_path")
    @classmethod
    def _prefix_of_paths(cls, path: str) -> str:
        if path and re.fullmatch(PATH_PREFIX, path) is None:
            raise ValueError(f"found {path!r}, expected a path such as /speech, without a slash at its end")
        return path

    def store_place(self) -> Path | str:
        """Path of the SQLite file, or URL of the PostgreSQL database."""
        if self.store is None:
            return self.data_dir / "documents.sqlite"
        return self.store if "://" in self.store else path_of(self.store)

    def shelf_place(self) -> Path | str:
        """Path of the directory, or URL of the bucket."""
        if self.shelf is None:
            return self.data_dir / "audio"
        return self.shelf if "://" in self.shelf else path_of(self.shelf)

    def origins(self) -> tuple[str, ...]:
        """Origins of `allowed_origins` as browsers write them: in lower case, without a slash at the end."""
        return tuple(origin.lower().rstrip("/") for origin in _split(self.allowed_origins))

    def hooks(self) -> tuple[str, ...]:
        """Hosts of `webhook_hosts`, in lower case."""
        return tuple(host.lower() for host in _split(self.webhook_hosts))


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
