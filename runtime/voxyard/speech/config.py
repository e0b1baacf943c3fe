"""Settings of `voxyard speak` and of the pool; flags, variables, YAML keys and documentation are generated."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from pydantic import field_validator

from voxyard.settings import Section, setting
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.pool.job import OnFailure
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.reading.options import READING, ReadingOptions

DEFAULT_WORKERS = 4


class SpeakSection(Section):
    """Text, voice and output of `voxyard speak`."""

    group = "SPEAK"

    voice: str | None = setting(
        None,
        "Voice: a preset such as v2/en_speaker_6, or a voice file (.npz).",
        default_text="the language's sixth preset",
    )
    cast: str | None = setting(
        None,
        "Voices of the text's tags, [voice:NAME] and SSML's <voice name>: narrator=en-us,mia=en-gb+f4; narrator speaks "
        "what has no tag.",
        default_text="a tag names a voice of the engine",
    )
    seed: int = setting(
        0, "Random seed; the same seed gives the same audio with any number of workers.", ge=0, lt=2**63
    )
    language: str | None = setting(
        None,
        "Language of the text, such as en or pt-BR.",
        default_text="the voice's, without a voice the file's, else by the script",
    )
    on_failure: OnFailure = setting(
        "fail", "Action on a chunk that cannot be spoken: the command fails, or silence is accepted."
    )
    metrics_port: int = setting(0, "Port of the Prometheus metrics; 0 is off.", ge=0, le=65535)
    metrics_host: str = setting("127.0.0.1", "Address that the metrics listen on; 0.0.0.0 for every interface.")


EngineName = Literal["auto", "bark", "voxyard", "espeak", "openai"]


class SpeechSection(Section):
    """Worker processes, their timeouts, and the pauses between chunks."""

    group = "SPEECH"

    engine: EngineName | str = setting(
        "auto",
        "Engine: bark; voxyard for a voice that `voxyard export` wrote, the directory of --model; espeak for "
        "espeak-ng, which needs no weights and no GPU; openai for servers that speak OpenAI's speech API; auto is bark "
        "where its weights are or a setting of it is given, else espeak; package.module:factory is one of "
        "your own.",
    )
    base_url: str | None = setting(
        None, "Servers of --engine openai, such as http://gpu-1:8880/v1, with commas between; each is a worker."
    )
    api_key_file: Path | None = setting(
        None, "File with the key of these servers.", default_text="the variable OPENAI_API_KEY, else none"
    )
    remote_model: str | None = setting(
        None, "Model that these servers are asked for.", default_text="the first that they list"
    )
    server_requests: int = setting(4, "Chunks that one of these servers gets at a time.", ge=1, le=64)
    server_timeout: float = setting(120.0, "Time for the answer of such a server.", unit="s", gt=0)
    enable_parallel_tts: bool = setting(
        True,
        "Use several devices and batches of chunks; off means one worker and one chunk at a time.",
        flag="--parallel",
        variable="ENABLE_PARALLEL_TTS",
    )
    max_parallel_tts_workers: int = setting(
        DEFAULT_WORKERS,
        "Highest number of workers: one for each usable GPU, up to this number.",
        flag="--workers",
        variable="MAX_PARALLEL_TTS_WORKERS",
        ge=1,
    )
    gpus: str | int | None = setting(
        None,
        "GPUs to use, with commas between: numbers of nvidia-smi, or UUIDs (GPU-…, MIG-…); a worker on each.",
        default_text="those that CUDA_VISIBLE_DEVICES leaves, or all",
    )
    worker_memory_mib: int = setting(
        6144, "Free GPU memory that a worker needs to start.", flag="--worker-memory", unit="MiB", ge=0
    )
    progress_timeout: float = setting(
        20.0, "Time without progress on its chunks after which a worker counts as hung.", unit="s", ge=5
    )
    start_timeout: float = setting(
        900.0, "Timeout for a worker to load its model; meanwhile no heartbeat is expected.", unit="s", gt=0
    )
    heartbeat_timeout: float = setting(
        25.0,
        "Time without a heartbeat of its process after which a worker that has its model loaded counts as hung.",
        unit="s",
        ge=5,
    )
    pool: Literal["local", "ray"] = setting(
        "local", "Place of the workers: local, on this host, or ray, on the hosts of a cluster."
    )
    cluster: str | None = setting(None, "Head of the cluster as HOST:PORT, a private address; needed with ray.")
    cluster_token: Path | None = setting(
        None, "File with the cluster's token, readable by its owner only; needed for a head beyond loopback."
    )
    cluster_wait: float = setting(
        900.0,
        "Longest wait for the cluster's head and, of voxyard speak, for a worker; the service parks its documents.",
        unit="s",
        gt=0,
    )
    sentence_pause: float = setting(0.25, "Silence between two sentences.", unit="s", ge=0, le=10)
    paragraph_pause: float = setting(0.6, "Silence between two paragraphs.", unit="s", ge=0, le=10)
    chapter_pause: float = setting(1.5, "Silence between two chapters.", unit="s", ge=0, le=10)

    read: str = setting(
        "all",
        "Figures and short forms that become words: all, none, or some of numbers, ordinals, currency, dates, times, "
        "units, abbreviations, symbols, with commas between; in languages with rules. all,emoji names emoji too.",
    )
    lexicon: Path | None = setting(None, "Pronunciation lexicon, a YAML file: a word and what is spoken for it.")

    code_blocks: Literal["skip", "announce"] = setting(
        "skip", "Blocks of code in Markdown, HTML and EPUB files: skip, or announce with their number of lines."
    )

    gutenberg_licence: Literal["speak", "skip"] = setting(
        "speak", "What Project Gutenberg adds before and after a book: speak it, or skip it."
    )

    @field_validator("engine")
    @classmethod
    def _known_engine(cls, engine: str) -> str:
        names = get_args(EngineName)
        if engine not in names and not re.fullmatch(r"[\w.]+:[A-Za-z_]\w*", engine):
            raise ValueError(f"found {engine!r}, expected {', '.join(names)}, or package.module:factory")
        return engine

    def limits(self) -> PoolLimits:
        """Limits of the scheduler."""
        return PoolLimits(
            max_chunks=None if self.enable_parallel_tts else 1,
            progress_timeout=self.progress_timeout,
            start_timeout=self.start_timeout,
            heartbeat_timeout=self.heartbeat_timeout,
        )

    def pauses(self) -> Pauses:
        """Silence between chunks."""
        return Pauses(sentence=self.sentence_pause, paragraph=self.paragraph_pause, chapter=self.chapter_pause)

    def reading(self) -> ReadingOptions:
        """Reading of texts. Raises SpeechError where a kind is unknown or the lexicon is wrong."""
        from voxyard.speech.reading.lexicon import read_lexicon

        found = READING.changed(self.read, None if self.lexicon is None else read_lexicon(self.lexicon))
        return replace(found, gutenberg_licence=self.gutenberg_licence == "speak")
