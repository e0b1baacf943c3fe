"""The stages on a GPU that is not there: fake tensors check devices, a recorder stands for CUDA graphs."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from voxyard.bark.model import attention, coarse, cuda_step, fine, semantic
from voxyard.bark.model.codec import decode
from voxyard.bark.model.cuda_graph import fill_graph, graphs
from voxyard.bark.model.decode import Decoder, Launch, Restriction, Rows, TokenSampling, eager
from voxyard.bark.model.gpt import causal_gpt, moved
from voxyard.bark.model.int8 import dense, int8
from voxyard.bark.model.memory import row_bytes
from voxyard.bark.model.noise import key
from voxyard.bark.weights.checkpoint import BarkCheckpoint, load

LIKELY = Restriction(20, 0.9)
LOW = "float32", "bfloat16", "int8", "int8 beside bfloat16"


class Host:
    """An array that has come from the device."""

    def __init__(self, tensor: Any) -> None:
        self._array = np.ones(tuple(tensor.shape), dtype=str(tensor.dtype).removeprefix("torch."))

    def numpy(self) -> Any:
        return self._array


class WithoutDriver(TorchFunctionMode):
    """Substitutes for calls that torch refuses without CUDA, and a list of the waits of the host for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [each for each in args if isinstance(each, torch.Tensor)]
        if tensors and not any(isinstance(each, FakeTensor) or each.ndim for each in tensors):
            with _disable_current_modes():  # a number in main memory
                return func(*args, **(kwargs or {}))
        if func is torch.nn.functional.conv_transpose1d:  # asks CUDA for its backend
            assert len({each.device for each in tensors}) == 1
            with _disable_current_modes():
                metas = [torch.empty(each.shape, dtype=each.dtype, device="meta") for each in tensors]
                shape = func(*metas, *args[len(metas) :], **(kwargs or {})).shape
            return torch.empty(shape, dtype=args[0].dtype, device=args[0].device)
        if func is torch._VF.lstm:  # cuDNN's, where PyTorch has it, asks for the driver
            assert len({each.device for each in (args[0], *args[1], *args[2])}) == 1
            with torch.backends.cudnn.flags(enabled=False):
                return func(*args, **(kwargs or {}))
        if func is torch.nn.functional.pad:
            with _disable_current_modes():
                widths = [int(each) for each in args[1]]
            return torch.ops.aten.pad(args[0], widths, *args[2:])
        if func is torch.Tensor.__getitem__:
            return _read(*_basic(args[0], args[1]))
        if func is torch.Tensor.__setitem__:
            return _write(*_basic(args[0], args[1]), args[2])
        if func is torch.Tensor.copy_:
            return torch.ops.aten.copy_(*args)
        if func is torch.Tensor.isnan:
            return args[0] != args[0]
        if func is torch.Tensor.__invert__:
            return torch.ops.aten.bitwise_not(args[0])
        if func is torch.Tensor.to and str(args[1]).startswith("cuda"):
            there = args[0].device.type == "cuda"
            return args[0] if there else torch.ops.aten._to_copy(args[0], device=torch.device("cuda"))
        if func is torch.Tensor.cpu and args[0].device.type == "cuda":
            return self.arrived(args[0], sys._getframe(1).f_code)
        return func(*args, **(kwargs or {}))

    def arrived(self, tensor: Any, caller: CodeType) -> Host:
        """Result that a function of the program has waited for."""
        self.waits.append(f"{Path(caller.co_filename).stem}.{caller.co_name}")
        return Host(tensor)


def _basic(x: Any, place: Any) -> tuple[Any, list[Any]]:
    """A view after numbers and slices of an index; the tensors among it, by axis of the view."""
    tensors: list[Any] = []
    parts = place if isinstance(place, tuple) else (place,)
    named = sum(each is not None and each is not Ellipsis for each in parts)
    for each in parts:
        axis = len(tensors)
        if each is None:
            x = x.unsqueeze(axis)
        elif isinstance(each, int):
            x = torch.select(x, axis, each)
            continue
        elif each is Ellipsis:
            tensors += [None] * (x.dim() - named)
            continue
        elif isinstance(each, slice):
            x = torch.ops.aten.slice(x, axis, each.start, each.stop, each.step or 1)
        tensors.append(None if each is None or isinstance(each, slice) else torch.as_tensor(each, device=x.device))
    return x, tensors


def _read(x: Any, tensors: list[Any]) -> Any:
    return x if all(each is None for each in tensors) else torch.ops.aten.index(x, tensors)


def _write(x: Any, tensors: list[Any], value: Any) -> None:
    value = value if isinstance(value, torch.Tensor) else torch.full((), value, dtype=x.dtype, device=x.device)
    if all(each is None for each in tensors):
        torch.ops.aten.copy_(x, value)
    else:
        torch.ops.aten.index_put_(x, tensors, value)


def faked(model: Any) -> Any:
    """The model with weights that only have a shape and a type."""
    made: dict[int, Any] = {}
    for module in model.modules():
        for store in (module._parameters, module._buffers):
            for name, real in store.items():
                if real is None:
                    continue
                if id(real) not in made:
                    empty = torch.empty(real.shape, dtype=real.dtype)
                    parameter = isinstance(real, torch.nn.Parameter)
                    made[id(real)] = torch.nn.Parameter(empty, requires_grad=False) if parameter else empty
                store[name] = made[id(real)]
    return model


@pytest.mark.parametrize(
    ("low", "likely", "voiced", "kernels"),
    [
        *((low, Restriction(), False, True) for low in (*LOW, "cache beside bfloat16")),  # which kernels alone read
        *(pytest.param(low, LIKELY, True, False, marks=pytest.mark.slow) for low in LOW),
    ],
)
def test_every_transformer_stays_on_the_gpu_and_waits_where_meant(
    tiny_model: Path, history: Any, monkeypatch: pytest.MonkeyPatch, low: str, likely: Restriction, voiced: bool,
    kernels: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(attention, "problem", lambda *_, **__: None if kernels else "they are not wanted")
    monkeypatch.setattr(cuda_step, "normalises", lambda *_: kernels)
    loaded, in_8_bits = load(tiny_model, precision="bfloat16" if "bfloat16" in low else "float32"), "int8" in low
    narrow = "cache" in low
    layout, voice = loaded.layout, history.random(300, 450) if voiced else None
    full = functools.partial(dense, device="cuda")
    linear = functools.partial(int8, device="cuda") if in_8_bits else full
    done: list[Any] = []
    with torch.inference_mode(False), torch.no_grad(), FakeTensorMode():
        model = faked(loaded.model)  # 8-bit and offloaded weights come from main memory
        first, second = (causal_gpt(each, linear) for each in (model.semantic, model.coarse_acoustics))
        third = fine.fine_gpt(model.fine_acoustics, linear, full)
        with WithoutDriver() as mode:
            arrived = mode.arrived
            monkeypatch.setattr(
                FakeTensor, "tolist", lambda x: arrived(x, sys._getframe(1).f_code).numpy().astype(int).tolist()
            )
            past = None if voice is None else voice.semantic_prompt
            texts = [semantic.SemanticWork(n, range(5, 9), past, key(7, n, 0, "semantic")) for n in range(3)]
            options = semantic.SemanticOptions(limit=4, check_every=4, likely=likely)
            gpt = moved(first, "cuda")
            semantic.speak(Decoder(gpt, gpt.cache(2, in_8_bits=narrow)), layout.semantic, texts, options, done.append)
            works = [coarse.CoarseWork(n, range(6), voice, key(7, n, 0, "coarse")) for n in range(3)]
            gpt = moved(second, "cuda")
            coarse.speak(
                Decoder(gpt, gpt.cache(2, in_8_bits=narrow)), layout.coarse, works, 0.7, done.append, likely=likely
            )
            fine.speak(moved(third, "cuda"), layout.fine, done[-1].codes, voice, key(7, 0, 0, "fine"), 0.5)

    assert len(done) == 6
    assert mode.waits == [*["decode.run"] * 4, "fine.speak"]  # once a block of steps, once a chunk


@pytest.mark.filterwarnings("ignore:PyTorch was compiled without cuDNN", "ignore:Accessing the data pointer of Fake")
def test_the_codec_stays_on_the_gpu_and_waits_for_its_audio_alone(tiny_model: Path) -> None:
    codec = load(tiny_model).model.codec_model
    with torch.inference_mode(False), torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        for module in codec.modules():
            for store in (module._parameters, module._buffers):
                for name, real in store.items():
                    if real is not None and real.ndim:  # numbers stay in main memory, as _placed_codec leaves them
                        empty = torch.empty(real.shape, dtype=real.dtype, device="cuda")
                        store[name] = torch.nn.Parameter(empty, False) if store is module._parameters else empty
            if isinstance(module, torch.nn.LSTM):
                module._flat_weights = [getattr(module, name) for name in module._flat_weights_names]
        with WithoutDriver() as mode:
            decode(codec, np.zeros((8, 40), dtype=np.int64))

    assert mode.waits == ["codec.decode"]


class Recorder(TorchDispatchMode):
    """Operations between `with` and its end, with the tensors that they read and wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func not in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        found = func(*args, **(kwargs or {}))
        self.steps.append((func, args, kwargs or {}, found))
        return found


class RecordedGraph:
    """Stands for a CUDA graph: replays recorded operations on the addresses that they were recorded with."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        for func, args, named, found in self.recorder.steps:
            again = func(*args, **named)
            old, new = (each if isinstance(each, list | tuple) else (each,) for each in (found, again))
            for target, value in zip(old, new, strict=True):
                if isinstance(target, torch.Tensor) and target.data_ptr() != value.data_ptr():
                    target.copy_(value)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[RecordedGraph]:
    """Graphs that were captured."""
    found: list[RecordedGraph] = []

    class Stream:
        def wait_stream(self, other: Any) -> None:
            pass

    @contextlib.contextmanager
    def capture(graph: RecordedGraph, pool: Any, capture_error_mode: str) -> Iterator[None]:
        assert capture_error_mode == "thread_local"  # another thread may launch meanwhile
        found.append(graph)
        with graph.recorder:
            yield

    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", RecordedGraph)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    return found


@pytest.mark.parametrize("likely", [Restriction(), LIKELY])
def test_replayed_graphs_choose_the_tokens_of_plain_steps(
    checkpoint: BarkCheckpoint, history: Any, recorded: list[RecordedGraph], likely: Restriction
) -> None:
    gpt, layout = causal_gpt(checkpoint.model.coarse_acoustics), checkpoint.layout.coarse
    voices = history.random(300, 450), None, history.random(30, 45)
    works = [coarse.CoarseWork(n, range(n, 30 + n), voices[n], key(7, n, 0, "coarse")) for n in range(3)]

    def codes(launch: Launch) -> dict[int, Any]:
        spoken: list[Any] = []
        decoder = Decoder(gpt, gpt.cache(2), launch)
        coarse.speak(decoder, layout, works, 0.7, spoken.append, likely=likely)
        return {each.number: each.codes.tolist() for each in spoken}

    assert codes(graphs) == codes(eager)
    assert max(each.replays for each in recorded) > 20


def test_a_step_that_is_captured_at_the_end_of_a_block_is_made_once(
    checkpoint: BarkCheckpoint, recorded: list[RecordedGraph]
) -> None:
    """The runs before a capture leave the loop as it was; the block after it is replayed on the same tensors."""
    gpt, found = causal_gpt(checkpoint.model.coarse_acoustics), []
    for launch in (graphs, eager):
        decoder = Decoder(gpt, gpt.cache(2), launch)
        decoder.prefill([(0, gpt.tokens[:64]), (1, gpt.tokens[:64])])
        rows = Rows([5, 6], [61, 61], [0, 0], [(1, 2), (3, 4)])
        blocks = [decoder.run(rows, [TokenSampling(0, 100, 0.7)] * 4, steps) for steps in (4, 3)]
        found.append((blocks, rows))
    assert found[0] == found[1]
    assert [each.replays for each in recorded] == [2, 3, 4], "prefills, steps up to 64 positions, further ones"


@pytest.mark.parametrize(("frames", "voice"), [(90, None), (300, 700), pytest.param(1100, 100, marks=pytest.mark.slow)])
def test_a_replayed_window_is_filled_as_a_plain_one(
    checkpoint: BarkCheckpoint, history: Any, recorded: list[RecordedGraph], frames: int, voice: int | None
) -> None:
    """The graph computes all frames of a window, whichever of them are wanted: one serves every chunk and voice."""
    gpt, layout, reports = fine.fine_gpt(checkpoint.model.fine_acoustics), checkpoint.layout.fine, list[str]()
    past = history.random(50, voice) if voice else None
    codes = np.random.default_rng(frames).integers(0, 1024, (2, frames))
    fill = fill_graph(gpt)

    def spoken(named: tuple[int, int], fill: fine.Fill | None) -> Any:
        found, finite = fine.speak(gpt, layout, codes, past, named, 0.5, lambda: reports.append(""), fill)
        assert finite
        return found.tolist()

    for chunk in range(2):
        named = key(7, chunk, 0, "fine")
        assert spoken(named, fill) == spoken(named, None)
    before = min(voice or 0, layout.hop)
    windows = len(fine.windows(layout, before, frames, max(layout.window, before + frames)))
    assert [each.replays for each in recorded] == [2 * windows]


def test_a_window_with_a_value_that_is_not_finite_is_told_by_its_graph(
    checkpoint: BarkCheckpoint, recorded: list[RecordedGraph]
) -> None:
    gpt, layout = fine.fine_gpt(checkpoint.model.fine_acoustics), checkpoint.layout.fine
    fill, codes = fill_graph(gpt), np.zeros((2, 40), dtype=np.int64)
    assert fine.speak(gpt, layout, codes, None, (1, 2), 0.5, fill=fill)[1]
    kept = gpt.positions[3].clone()
    gpt.positions[3] = float("nan")
    assert not fine.speak(gpt, layout, codes, None, (1, 2), 0.5, fill=fill)[1]
    gpt.positions[3] = kept
    assert fine.speak(gpt, layout, codes, None, (1, 2), 0.5, fill=fill)[1]
    assert len(recorded) == 1


def test_a_replayed_prefill_and_every_replayed_step_report_progress(
    checkpoint: BarkCheckpoint, recorded: list[RecordedGraph]
) -> None:
    gpt, reports = causal_gpt(checkpoint.model.coarse_acoustics), list[str]()
    decoder = Decoder(gpt, gpt.cache(2), graphs)
    decoder.report = lambda: reports.append("report")

    decoder.prefill([(0, gpt.tokens[:64]), (1, gpt.tokens[:128])])
    windows = len(reports)
    decoder.run(Rows([5, 6], [64, 128], [0, 0], [(1, 2), (3, 4)]), [TokenSampling(0, 100, 0.7)] * 3)

    assert (windows, len(reports)) == (2, 2 + 3)


@pytest.mark.parametrize("in_8_bits", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_cache_on_a_gpu_takes_the_memory_that_is_counted_for_its_rows(
    checkpoint: BarkCheckpoint, monkeypatch: pytest.MonkeyPatch, in_8_bits: bool, dtype: Any
) -> None:
    monkeypatch.setattr(attention, "problem", lambda *_, **__: None)
    gpt, sizes = moved(causal_gpt(checkpoint.model.coarse_acoustics), "meta"), checkpoint.model.config.semantic_config
    gpt = replace(gpt, positions=gpt.positions.to(dtype))
    cache = gpt.cache(3, in_8_bits=in_8_bits)

    taken = 0
    for layer in cache.layers:
        taken += layer.keys.untyped_storage().nbytes()  # values lie in the same storage
        taken += 0 if layer.scales is None else layer.scales.nbytes

    expected = row_bytes(
        sizes.num_layers, sizes.num_heads, sizes.hidden_size, sizes.block_size, dtype.itemsize, in_8_bits=in_8_bits
    )
    assert taken == 3 * expected == 3 * cache.row_bytes(sizes.block_size)
