"""The kernels of a decode step: their arithmetic on a stand-in for a GPU, their choice, and on a real one the sound."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (the field's name for it)
from cuda_on_cpu import Compiled
from torch._subclasses.fake_tensor import FakeTensorMode

from voxyard.bark.errors import BarkError
from voxyard.bark.model import attention, cuda_kernels, cuda_step, fine
from voxyard.bark.model.attention import Cache, LayerCache
from voxyard.bark.model.gpt import causal_gpt
from voxyard.bark.weights.checkpoint import load

pytestmark = pytest.mark.needs("g++")
ERROR = {torch.float32: 1e-6, torch.bfloat16: 5e-3}  # of the result's norm


def error(found: Any, expected: Any) -> float:
    return float((found.double() - expected).norm() / expected.norm())


def macros(dtype: Any, **others: int) -> cuda_kernels.Macros:
    return (("BF16", int(dtype == torch.bfloat16)), ("CACHE8", 0), *others.items())


def in_8_bits(values: Any) -> tuple[Any, Any]:
    """Values (…, width) as whole numbers, and their scales (…) in the type of the values."""
    largest = values.float().abs().amax(-1).clamp_min(1e-30)
    full = torch.tensor(127.0, device=values.device)  # by a plain number a GPU would multiply with its inverse
    scales = (largest / full + (largest - largest)).to(values.dtype)
    whole = (values.float() * (1 / scales.float())[..., None]).round().clamp(-127, 127)
    return whole.nan_to_num().to(torch.int8), scales


def rounded(values: Any) -> Any:
    """What is read of values that were stored in 8 bits."""
    whole, scales = in_8_bits(values)
    return whole.double() * scales.double()[..., None]


def attended(qkv: Any, cache: Any, at: Any, stored: Callable[[Any], Any] = lambda values: values) -> Any:
    """Attention in float64 to the positions of each row up to `at`, the new one as it is stored; it is written."""
    rows, _, heads, _, width = cache.shape
    q, k, v = qkv.view(rows, 3, heads, 1, width).unbind(1)
    found = []
    for row, last in enumerate(at.tolist()):
        cache[row, 0, :, last], cache[row, 1, :, last] = stored(k[row, :, 0]), stored(v[row, :, 0])
        keys, values = cache[row, :, :, : last + 1].double().unbind(0)
        found.append(F.scaled_dot_product_attention(q[row].double(), keys, values).flatten())
    return torch.stack(found)


Compiler = Callable[[cuda_kernels.Macros], Compiled]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    """The kernels of a cache for each set of macros, compiled once."""

    @functools.cache
    def made(given: cuda_kernels.Macros) -> Compiled:
        names = "attend_spans", "join_spans", "write_window"
        return Compiled(tmp_path_factory.mktemp("attention"), "attention", given, names)

    return made


@dataclass
class OnStandIn:
    """The kernels of a cache on the stand-in, and the cache."""

    kernels: Compiled
    cache: Any
    scales: Any
    span: int

    @classmethod
    def of(cls, compiled: Compiler, values: Any, span: int, *, in_8: bool) -> OnStandIn:
        """A cache of values, (rows, 2, heads, block, width)."""
        _, _, heads, block, width = values.shape
        sizes = {"CACHE8": int(in_8), "HEADS": heads, "WIDTH": width, "BLOCK": block, "SPAN": span}
        kernels = compiled((("BF16", int(values.dtype == torch.bfloat16)), *sizes.items()))
        cache, scales = in_8_bits(values) if in_8 else (values.clone(), None)
        return cls(kernels, cache, scales, span)

    def attend(self, qkv: Any, at: Any) -> Any:
        """What a step attends to; its position is written."""
        rows, _, heads, block, width = self.cache.shape
        spans = -(-block // self.span)
        parts = torch.full((rows, heads, spans, width + 2), float("nan"))
        out = torch.full((rows, heads * width), float("nan")).to(qkv.dtype)
        self.kernels.launch("attend_spans", (spans, heads, rows), 128, (qkv, self.cache, self.scales, at, parts))
        self.kernels.launch("join_spans", (heads, rows, 1), width, (parts, at, out))
        return out

    def write(self, qkv: Any, rows: Any) -> None:
        """Write windows to rows."""
        _, _, heads, _, width = self.cache.shape
        threads = 2 * heads * width * self.cache.element_size() // 16
        grid = (qkv.shape[1], qkv.shape[0], 1)
        self.kernels.launch("write_window", grid, threads, (qkv, self.cache, self.scales, rows))

    @property
    def values(self) -> Any:
        """What the cache says."""
        return self.cache if self.scales is None else self.cache.double() * self.scales.double()[..., None]


@pytest.mark.parametrize("in_8", [False, True])
@pytest.mark.parametrize(
    ("dtype", "heads", "width", "block", "span"),
    [
        (torch.float32, 4, 16, 256, 128),
        pytest.param(torch.float32, 1, 64, 384, 256, marks=pytest.mark.slow),
        (torch.bfloat16, 2, 64, 512, 128),
        pytest.param(torch.bfloat16, 2, 64, 1024, 256, marks=pytest.mark.slow),
        pytest.param(torch.bfloat16, 1, 32, 512, 256, marks=pytest.mark.slow),
    ],
)
def test_a_row_attends_to_its_own_positions_and_its_new_one_is_written(
    compiled: Compiler, dtype: Any, heads: int, width: int, block: int, span: int, in_8: bool
) -> None:
    torch.manual_seed(width)
    at = torch.tensor([0, 5, span - 1, span, span + 70, block - 1])
    qkv = torch.randn(len(at), 3 * heads * width).to(dtype)
    values = torch.randn(len(at), 2, heads, block, width).to(dtype)
    values[1, :, :, 6:] = float("nan")  # of another chunk, whose positions are not read
    standing = OnStandIn.of(compiled, values, span, in_8=in_8)
    expected_cache = standing.values.clone()

    out = standing.attend(qkv, at)

    expected = attended(qkv, expected_cache, at, rounded if in_8 else lambda values: values)
    assert error(out, expected) < ERROR[dtype]
    torch.testing.assert_close(standing.values, expected_cache, rtol=0, atol=0, equal_nan=True)
    if in_8:
        exact = attended(qkv, values.double(), at)
        assert 1e-4 < error(out, exact) < 0.02


@pytest.mark.parametrize("in_8", [False, True])
@pytest.mark.parametrize(("dtype", "heads", "width"), [(torch.float32, 4, 16), (torch.bfloat16, 2, 64)])
def test_windows_are_written_to_their_rows(compiled: Compiler, dtype: Any, heads: int, width: int, in_8: bool) -> None:
    torch.manual_seed(heads)
    standing = OnStandIn.of(compiled, torch.randn(4, 2, heads, 128, width).to(dtype), 128, in_8=in_8)
    expected = standing.values.clone()
    qkv, rows = torch.randn(3, 5, 3 * heads * width).to(dtype), torch.tensor([2, 0, 2])
    qkv[2] = qkv[0]  # a window that is repeated
    qkv[1, 1] = 0

    standing.write(qkv, rows)

    kv = qkv.view(3, 5, 3, heads, width)[:, :, 1:].permute(0, 2, 3, 1, 4)
    expected[rows, :, :, :5] = rounded(kv) if in_8 else kv
    torch.testing.assert_close(standing.values, expected, rtol=0, atol=0)


@pytest.mark.parametrize("in_8", [False, True])
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["key", "value", "new key", "window"])
def test_a_value_that_is_not_finite_reaches_its_row_alone(
    compiled: Compiler, in_8: bool, poison: float, where: str
) -> None:
    qkv, cache, at = torch.randn(2, 48), torch.randn(2, 2, 1, 256, 16), torch.tensor([200, 200])
    if where in ("key", "value"):
        cache[0, int(where == "value"), 0, 3, 0] = poison
        cache[0, 0, 0, 3, 1] = 1.0
    if where == "new key":
        qkv[0, 16:18] = torch.tensor([poison, float("nan")])
    standing = OnStandIn.of(compiled, cache, 128, in_8=in_8)
    if where == "window":
        window = torch.randn(2, 8, 48)
        window[0, 5, 32] = poison
        standing.write(window, torch.tensor([0, 1]))
        assert standing.scales is None or standing.scales.isnan().nonzero().tolist() == [[0, 1, 0, 5]]

    out = standing.attend(qkv, at)

    assert out.isfinite().all(1).tolist() == [False, True]


@pytest.mark.slow
@pytest.mark.parametrize(("in_8", "least", "most"), [(False, 0.0, 1e-5), (True, 1e-4, 0.011)])
def test_prefill_and_steps_by_the_kernels_have_the_logits_of_plain_ones(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_8: bool, least: float, most: float
) -> None:
    """A model's own way through them, with the functions that launch them on the stand-in; 1.1% is bfloat16's error."""
    gpt = causal_gpt(load(tiny_model).model.coarse_acoustics)
    names = "attend_step", "write_window"

    def standing(source: str, given: cuda_kernels.Macros, functions: tuple[str, ...], _: Any) -> Compiled:
        return Compiled(tmp_path, source, given, functions)

    monkeypatch.setattr(cuda_step, "compiled", functools.cache(standing))
    for name in names:
        monkeypatch.setattr(torch.ops.voxyard, name, getattr(cuda_step, name)._init_fn)
    plain, ours = gpt.cache(2), gpt.cache(2)
    both = [torch.zeros(2, 2, *layer.keys.shape[1:]) for layer in ours.layers]
    ours.layers = tuple(
        LayerCache(each[:, 0], each[:, 1], each, torch.zeros(each.shape[:-1]) if in_8 else None)
        for each in (each.to(torch.int8) if in_8 else each for each in both)
    )
    ours.kernels = True
    found = []
    for cache in (plain, ours):
        draw = torch.Generator().manual_seed(5)
        window = gpt.tokens[torch.randint(1000, (2, 64), generator=draw)]
        gpt.prefill_rows(window, cache, torch.tensor([1, 0]))
        tokens = torch.randint(1000, (6, 2), generator=draw)
        steps = [gpt.step(each, torch.tensor([64 + n, 9 + n]), cache, 128) for n, each in enumerate(tokens)]
        found.append(gpt.logits(torch.stack(steps), 0, 1000))

    assert least <= error(found[1], found[0].double()) <= most


@pytest.mark.parametrize(("dtype", "hidden"), [(torch.float32, 64), (torch.float32, 768), (torch.bfloat16, 1024)])
@pytest.mark.parametrize("biased", [True, False])
def test_a_sum_is_rounded_and_then_normalised(tmp_path: Path, dtype: Any, hidden: int, biased: bool) -> None:
    torch.manual_seed(hidden)
    kernels = Compiled(tmp_path, "add_and_norm", macros(dtype, HIDDEN=hidden), ("add_and_norm",))
    x, added = (torch.randn(3, hidden).to(dtype) for _ in range(2))
    weight, bias = (torch.randn(hidden).to(dtype) for _ in range(2))
    total, normed = torch.empty_like(x), torch.empty_like(x)

    kernels.launch("add_and_norm", (3, 1, 1), 128, (x, added, weight, bias if biased else None, total, normed))

    torch.testing.assert_close(total, x + added, rtol=0, atol=0)
    plain = F.layer_norm((x + added).double(), (hidden,), weight.double(), bias.double() if biased else None)
    assert error(normed, plain) < ERROR[dtype]


def test_on_a_cpu_there_are_no_kernels(caplog: pytest.LogCaptureFixture) -> None:
    assert not Cache(torch.zeros(8, 64), (2, 4, 8, 16), 1).kernels
    assert not caplog.messages


UNAVAILABLE = [
    (torch.float16, 64, None, "values in torch.float16"),
    (torch.float32, 1024, None, "heads of 1024 values"),
    (torch.bfloat16, 80, None, "heads of 80 values"),
    (torch.float32, 6, None, "heads of 6 values"),
    (torch.bfloat16, 64, ImportError("No module named 'cuda'"), "No module named 'cuda'"),
    (torch.bfloat16, 64, RuntimeError("NVRTC cannot\ncompile"), "NVRTC cannot compile"),
]


def cache_of_a_gpu(dtype: Any, width: int, *, in_8_bits: bool) -> Cache:
    """A cache on a GPU that is not there, without its memory."""
    with torch.inference_mode(False), FakeTensorMode():
        like = torch.zeros(256, 4 * width, device="cuda", dtype=dtype)
        return Cache(like, (2, 4, 256, width), 1, in_8_bits=in_8_bits)


@pytest.mark.parametrize("in_8_bits", [False, True])
@pytest.mark.parametrize(("dtype", "width", "failure", "said"), UNAVAILABLE)
def test_kernels_that_cannot_be_had_are_told_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    dtype: Any,
    width: int,
    failure: Exception | None,
    said: str,
    in_8_bits: bool,
) -> None:
    def refuse(*_: Any) -> Any:
        assert failure is not None
        raise failure

    monkeypatch.setattr(cuda_step, "compiled", refuse)
    monkeypatch.setattr(attention, "_zeros", lambda *_, **__: None)
    if in_8_bits:  # nothing else reads it
        with pytest.raises(BarkError, match=f"--kv-cache int8 cannot be had on this GPU: {said}; leave it out"):
            cache_of_a_gpu(dtype, width, in_8_bits=True)
        return
    with caplog.at_level(logging.WARNING):
        assert not cache_of_a_gpu(dtype, width, in_8_bits=False).kernels
    (message,) = caplog.messages
    assert message.endswith(f"by torch's own attention: {said}")


@pytest.mark.parametrize(
    ("heads", "width", "block", "in_8_bits", "said"),
    [
        (32, 128, 1024, False, "32 heads of 128 values, of which a position takes more than 1024 threads"),
        (4, 64, 1020, True, "blocks of 1020 positions, whose scales are no whole 16 bytes"),
        (4, 64, 1020, False, None),
        (4, 64, 1024, True, None),
    ],
)
def test_sizes_that_the_kernels_do_not_take_are_told(
    monkeypatch: pytest.MonkeyPatch, heads: int, width: int, block: int, in_8_bits: bool, said: str | None
) -> None:
    monkeypatch.setattr(cuda_step, "compiled", lambda *_: None)
    with torch.inference_mode(False), FakeTensorMode():
        like = torch.zeros(block, heads * width, device="cuda", dtype=torch.float32 if width == 128 else torch.bfloat16)
        assert cuda_step.problem(like, 2, heads, block, in_8_bits=in_8_bits) == said


def test_a_refusal_of_the_compiler_is_told_and_its_program_is_destroyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interface of cuda-bindings, as far as it can be had without a driver: answers are tuples with a code."""
    destroyed: list[str] = []

    class Code(int):
        name = "NVRTC_ERROR_COMPILATION"

    nvrtc: Any = ModuleType("nvrtc")
    nvrtc.nvrtcResult = SimpleNamespace(NVRTC_SUCCESS=Code(0))
    nvrtc.nvrtcCreateProgram = lambda *_: (Code(0), "program")
    nvrtc.nvrtcCompileProgram = lambda *_: (Code(6),)
    nvrtc.nvrtcGetProgramLogSize = lambda _: (Code(0), 4)
    nvrtc.nvrtcGetProgramLog = lambda *_: (Code(0),)
    nvrtc.nvrtcDestroyProgram = destroyed.append
    bindings: Any = ModuleType("cuda.bindings")
    bindings.nvrtc = nvrtc
    for name, module in (("cuda", ModuleType("cuda")), ("cuda.bindings", bindings), ("cuda.bindings.nvrtc", nvrtc)):
        monkeypatch.setitem(sys.modules, name, module)

    with pytest.raises(RuntimeError, match=r"NVRTC cannot compile attention.cu for sm_90"):
        cuda_kernels.cubin("attention", (), "sm_90")
    assert destroyed == ["program"]


if torch.version.cuda is not None:  # a build with CUDA brings cuda-bindings and NVRTC, which need no GPU to compile

    @pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_120"])
    @pytest.mark.parametrize("bfloat16", [0, 1])
    def test_the_sources_compile_for_every_kind_of_gpu(architecture: str, bfloat16: int) -> None:
        for heads, width, span in ((16, 64, 128), (12, 64, 256), (4, 16, 128)):
            sizes = ("HEADS", heads), ("WIDTH", width), ("BLOCK", 1024), ("SPAN", span)
            for in_8 in (0, 1):
                given = ("BF16", bfloat16), ("CACHE8", in_8), *sizes
                assert cuda_kernels.cubin("attention", given, architecture)
            hidden = ("HIDDEN", heads * width)
            assert cuda_kernels.cubin("add_and_norm", (("BF16", bfloat16), ("CACHE8", 0), hidden), architecture)


@pytest.mark.gpu
@pytest.mark.parametrize("in_8", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("heads", "width"), [(16, 64), (4, 16)])
def test_on_a_gpu_a_row_attends_to_its_own_positions(dtype: Any, heads: int, width: int, in_8: bool) -> None:
    torch.manual_seed(heads)
    rows, block = 64, 1024
    like = torch.zeros(block, heads * width, device="cuda", dtype=dtype)
    cache = Cache(like, (rows, heads, block, width), 1, in_8_bits=in_8)
    (layer,) = cache.layers
    window = torch.randn(rows, block, 3 * heads * width, device="cuda").to(dtype)
    torch.ops.voxyard.write_window(window, layer.both, layer.scales, cache.rows)
    expected = window.view(rows, block, 3, heads, width)[:, :, 1:].permute(0, 2, 3, 1, 4)
    expected = rounded(expected) if in_8 else expected.clone()
    qkv = torch.randn(rows, 3 * heads * width, device="cuda").to(dtype)
    at = torch.randint(0, block, (rows,), device="cuda")

    out = torch.ops.voxyard.attend_step(qkv, layer.both, layer.scales, at, block)
    longest = int(at.max())
    again = torch.ops.voxyard.attend_step(qkv, layer.both, layer.scales, at, longest + 1)

    assert error(out, attended(qkv, expected, at, rounded if in_8 else lambda values: values)) < ERROR[dtype]
    assert layer.both is not None
    read = layer.both if layer.scales is None else layer.both.double() * layer.scales.double()[..., None]
    assert torch.equal(read, expected)
    assert torch.equal(out, again)
    others_idle = torch.zeros_like(at)
    others_idle[3] = at[3]
    alone = torch.ops.voxyard.attend_step(qkv, layer.both, layer.scales, others_idle, block)
    assert torch.equal(alone[3], out[3])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_on_a_gpu_a_sum_is_rounded_and_then_normalised(dtype: Any) -> None:
    x, added = (torch.randn(64, 1024, device="cuda").to(dtype) for _ in range(2))
    weight = torch.randn(1024, device="cuda").to(dtype)

    total, normed = torch.ops.voxyard.add_and_norm(x, added, weight, None)

    assert torch.equal(total, x + added)
    assert error(normed, F.layer_norm(total.double(), (1024,), weight.double())) < ERROR[dtype]


@pytest.mark.gpu
def test_on_a_gpu_the_fine_stage_and_a_prefill_are_the_same_with_kernels_and_without(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(tiny_model, "cuda", "float32").model
    third, second = fine.fine_gpt(model.fine_acoustics), causal_gpt(model.coarse_acoustics)
    window = torch.randint(0, 1000, (8, 1024), device="cuda")
    embedded = second.tokens[torch.randint(0, 1000, (2, 128), device="cuda")]
    found = []
    for kernels in (True, False):
        if not kernels:
            monkeypatch.setattr(cuda_step, "normalises", lambda *_: False)
        cache = second.cache(2)
        second.prefill_rows(embedded, cache, torch.tensor([0, 1], device="cuda"))
        found.append((third.logits(window, 5, 0, 1024), cache.layers[-1].both))

    for ours, plain in zip(*found, strict=True):
        assert error(ours, plain.double()) < 1e-3  # torch's products may take TF32
