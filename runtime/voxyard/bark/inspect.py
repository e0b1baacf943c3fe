"""Report on a model directory: usable or not, size, memory of a worker."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from voxyard.bark.config import BarkConfig
from voxyard.bark.errors import BarkError
from voxyard.bark.model.memory import MIB, RESERVE, Footprint, activation_bytes, row_bytes
from voxyard.bark.weights import checkpoint, tokenizer

Size = Literal["large", "small", "other"]
SIZES: dict[tuple[int, int], Size] = {(24, 1024): "large", (12, 768): "small"}  # layers × width
_PRECISIONS = (("bfloat16", 2), ("float32", 4))  # with the bytes of a number
# safetensors' names of types, and torch's
_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True)
class WorkerMemory:
    """Memory of a worker with weights of one precision, in MiB; `need` is with one row and the reserve."""

    precision: str
    weights: int
    activations: int
    row: int
    need: int


@dataclass(frozen=True)
class ModelReport:
    """Report on a model directory; of an unusable one only the problems."""

    directory: str
    problems: tuple[str, ...]
    size: Size | None = None
    layers: int | None = None
    width: int | None = None
    parameters: int | None = None
    precision: str | None = None  # of the files; several are joined with a +
    pickled: bool = False
    random_weights: bool = False
    tokens: int | None = None  # word pieces of the tokenizer
    memory: tuple[WorkerMemory, ...] = ()

    @property
    def usable(self) -> bool:
        """True where the engine can load it."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {"usable": self.usable, **asdict(self)}

    def render(self) -> str:
        """As a table for people."""
        if not self.usable:
            return "\n".join((f"{self.directory} is no usable Bark model:", *(f"  {each}" for each in self.problems)))
        lines = [
            f"{self.directory} is a usable Bark model",
            f"  size        {self.size} ({self.layers} layers of {self.width})",
            f"  parameters  {(self.parameters or 0) / 1e6:,.1f} million",
            f"  weights     {self.precision}, {'pickled tensors' if self.pickled else 'safetensors'}",
            f"  tokenizer   {self.tokens:,} word pieces",
        ]
        lines += [
            f"  memory      {each.need:,} MiB in {each.precision}: weights {each.weights:,}, activations "
            f"{each.activations:,}, a row {each.row:,}, and {RESERVE:.0%} to spare; each further row {each.row:,}"
            for each in self.memory
        ]
        if self.random_weights:
            lines.append("  the weights are random: the audio will be noise")
        return "\n".join(lines)


@dataclass(frozen=True)
class _Tensor:
    name: str
    numbers: int
    kind: str

    @property
    def is_head_too(self) -> bool:
        """True for the fine stage's embeddings that are its heads as well: a worker stacks them, and so has both."""
        name = self.name.removeprefix("fine_acoustics.input_embeds_layers.")
        return name != self.name and not name.startswith("0.")

    @property
    def is_parameter(self) -> bool:
        """False for masks, running sums and the fine stage's heads, which are its embeddings once more."""
        extra = self.name.startswith("fine_acoustics.lm_heads.") or ".codebook." in self.name
        return "float" in self.kind and not extra


def inspect_model(directory: Path) -> ModelReport:
    """Inspect a directory: reads headers of safetensors, and the tensors' descriptions of pickles; runs no code."""
    problems = checkpoint.check(directory)
    if problems:
        return ModelReport(str(directory), problems)
    try:
        tokens = tokenizer.read(directory).get_vocab_size()
        tensors = [each for each in _tensors(directory) if each.is_parameter]
        stage, second = _stage(directory, "semantic_config"), _stage(directory, "coarse_acoustics_config")
    except BarkError as problem:
        return ModelReport(str(directory), (str(problem),))
    layers, width = stage["num_layers"], stage["hidden_size"]
    codec = sum(each.numbers for each in tensors if each.name.startswith("codec_model."))
    parameters = sum(each.numbers for each in tensors)
    in_memory = parameters - codec + sum(each.numbers for each in tensors if each.is_head_too)
    return ModelReport(
        str(directory),
        (),
        size=SIZES.get((layers, width), "other"),
        layers=layers,
        width=width,
        parameters=parameters,
        precision="+".join(sorted({each.kind for each in tensors})),
        pickled=not any(file.suffix == ".safetensors" for file in checkpoint.files(directory)),
        random_weights=checkpoint.is_random(directory),
        tokens=tokens,
        memory=tuple(_memory(in_memory, codec, (stage, second), *precision) for precision in _PRECISIONS),
    )


def _memory(
    weights: int, codec: int, causal: tuple[dict[str, int], dict[str, int]], precision: str, element: int
) -> WorkerMemory:
    """Memory of a worker in one precision; the codec's weights, counted apart, stay in float32."""
    stage = causal[0]
    width, block = stage["hidden_size"], stage["block_size"]
    footprint = Footprint(
        weights=weights * element + codec * 4,
        activations=activation_bytes(
            width, block, stage["output_vocab_size"], element, rows=1, check_every=BarkConfig().check_every
        ),
        row=sum(
            row_bytes(each["num_layers"], each["num_heads"], each["hidden_size"], each["block_size"], element)
            for each in causal
        ),
    )
    taken = footprint.weights + footprint.activations + footprint.row
    whole = (footprint.weights, footprint.activations, footprint.row, taken / (1 - RESERVE))
    return WorkerMemory(precision, *(math.ceil(each / MIB) for each in whole))


def _stage(directory: Path, name: str) -> dict[str, int]:
    """Sizes of a causal stage; defaults are those of the published small model."""
    settings = json.loads((directory / "config.json").read_text(encoding="utf-8")).get(name) or {}
    defaults = {"num_layers": 12, "num_heads": 12, "hidden_size": 768, "block_size": 1024, "output_vocab_size": 10_048}
    sizes = {each: settings.get(each, default) for each, default in defaults.items()}
    wrong = [each for each, size in sizes.items() if not isinstance(size, int) or size < 1]
    if wrong:
        raise BarkError(f"config.json: {wrong[0]} of {name} is {sizes[wrong[0]]!r}, expected a number above 0")
    return sizes


def _tensors(directory: Path) -> Iterator[_Tensor]:
    for file in checkpoint.files(directory):
        yield from _safe(file) if file.suffix == ".safetensors" else _pickled(file)


def _safe(file: Path) -> Iterator[_Tensor]:
    from safetensors import safe_open

    with safe_open(file, framework="numpy") as opened:
        for name in opened.keys():  # noqa: SIM118 (no mapping)
            tensor = opened.get_slice(name)
            kind = tensor.get_dtype()
            yield _Tensor(name, math.prod(tensor.get_shape()), _TYPES.get(kind, kind.lower()))


def _pickled(file: Path) -> Iterator[_Tensor]:
    from pickle import UnpicklingError

    import torch

    try:
        state = torch.load(file, map_location="meta", weights_only=True)
    except UnpicklingError as problem:
        raise BarkError(f"{file.name} contains more than tensors and could run code when loaded: refused") from problem
    except (OSError, RuntimeError, EOFError, ValueError, KeyError) as problem:
        raise BarkError(f"{file.name} is damaged: {type(problem).__name__} {problem}; download it again") from problem
    if not isinstance(state, dict):
        raise BarkError(f"{file.name} contains a {type(state).__name__}, expected a mapping of names to tensors")
    for name, tensor in state.items():
        yield _Tensor(name, tensor.numel(), str(tensor.dtype).removeprefix("torch."))
