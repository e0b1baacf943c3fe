"""The kernels of a decode step: their arithmetic on a stand-in for a GPU, their choice, and on a real one the sound."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (the field's name for it)
from cuda_on_cpu import Compiled

from voxyard.bark.model import cuda_kernels, cuda_step, fine
from voxyard.bark.model.attention import Cache
from voxyard.bark.model.gpt import causal_gpt
from voxyard.bark.weights.checkpoint import load

pytestmark = pytest.mark.needs("g++")
ERROR = {torch.float32: 1e-6, torch.bfloat16: 5e-3}  # of the result's norm


def error(found: Any, expected: Any) -> float:
    return float((found.double() - expected).norm() / expected.norm())


def macros(dtype: Any, **others: int) -> cuda_kernels.Macros:
    return (("BF16", int(dtype == torch.bfloat16)), *others.items())


def attended(qkv: Any, cache: Any, at: Any) -> Any:
    """Attention in float64 to the positions of each row up to `at`; the cache is written."""
    rows, _, heads, _, width = cache.shape
    q, k, v = qkv.view(rows, 3, heads, 1, width).unbind(1)
    found = []
    for row, last in enumerate(at.tolist()):
        cache[row, 0, :, last], cache[row, 1, :, last] = k[row, :, 0], v[row, :, 0]
        keys, values = cache[row, :, :, : last + 1].double().unbind(0)
        found.append(F.scaled_dot_product_attention(q[row].double(), keys, values).flatten())
    return torch.stack(found)


@pytest.mark.parametrize(
    ("dtype", "heads", "width", "block", "span"),
    [
        (torch.float32, 4, 16, 256, 128),
        pytest.param(torch.float32, 1, 64, 384, 256, marks=pytest.mark.slow),
        (torch.bfloat16, 2, 64, 512, 128),
        pytest.param(torch.bfloat16, 2, 64, 1024, 256, marks=pytest.mark.slow),
        pytest.param(torch.bfloat16, 1, 8, 512, 256, marks=pytest.mark.slow),
    ],
)
def test_a_row_attends_to_its_own_positions_and_its_new_one_is_written(
    tmp_path: Path, dtype: Any, heads: int, width: int, block: int, span: int
) -> None:
    torch.manual_seed(width)
    names = "attend_spans", "join_spans"
    kernels = Compiled(tmp_path, "attend_step", macros(dtype, HEADS=heads, WIDTH=width, BLOCK=block, SPAN=span), names)
    at = torch.tensor([0, 5, span - 1, span, span + 70, block - 1])
    qkv = torch.randn(len(at), 3 * heads * width).to(dtype)
    cache = torch.randn(len(at), 2, heads, block, width).to(dtype)
    cache[1, :, :, 6:] = float("nan")  # of another chunk, whose positions are not read
    expected_cache = cache.clone()
    spans = -(-block // span)
    parts = torch.full((len(at), heads, spans, width + 2), float("nan"))
    out = torch.full((len(at), heads * width), float("nan")).to(dtype)

    kernels.launch("attend_spans", (spans, heads, len(at)), 128, (qkv, cache, at, parts))
    kernels.launch("join_spans", (heads, len(at), 1), width, (parts, at, out))

    assert error(out, attended(qkv, expected_cache, at)) < ERROR[dtype]
    torch.testing.assert_close(cache, expected_cache, rtol=0, atol=0, equal_nan=True)


def test_a_value_that_is_not_finite_reaches_its_row_alone(tmp_path: Path) -> None:
    kernels = Compiled(
        tmp_path,
        "attend_step",
        macros(torch.float32, HEADS=1, WIDTH=16, BLOCK=256, SPAN=128),
        ("attend_spans", "join_spans"),
    )
    qkv, cache, at = torch.randn(2, 48), torch.randn(2, 2, 1, 256, 16), torch.tensor([200, 200])
    cache[0, 0, 0, 3, 0] = float("nan")
    parts, out = torch.zeros(2, 1, 2, 18), torch.zeros(2, 16)

    kernels.launch("attend_spans", (2, 1, 2), 128, (qkv, cache, at, parts))
    kernels.launch("join_spans", (1, 2, 1), 16, (parts, at, out))

    assert out.isfinite().all(1).tolist() == [False, True]


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


class OnGpu:
    """Looks like a tensor of a GPU."""

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype, self.shape, self.device = dtype, (1024, 4 * width), SimpleNamespace(type="cuda", index=0)

    def element_size(self) -> int:
        return int(self.dtype.itemsize)


@pytest.mark.parametrize(
    ("dtype", "width", "failure", "said"),
    [
        (torch.float16, 64, None, "values in torch.float16"),
        (torch.bfloat16, 80, None, "heads of 80 values"),
        (torch.float32, 6, None, "heads of 6 values"),
        (torch.bfloat16, 64, ImportError("No module named 'cuda'"), "No module named 'cuda'"),
        (torch.bfloat16, 64, RuntimeError("NVRTC cannot\ncompile"), "NVRTC cannot compile"),
    ],
)
def test_kernels_that_cannot_be_had_are_told_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    dtype: Any,
    width: int,
    failure: Exception | None,
    said: str,
) -> None:
    def refuse(*_: Any) -> Any:
        assert failure is not None
        raise failure

    monkeypatch.setattr(cuda_step, "compiled", refuse)
    with caplog.at_level(logging.WARNING):
        assert not cuda_step.available(OnGpu(dtype, width), 64, 4, 1024)
    (message,) = caplog.messages
    assert message.endswith(f"by torch's own attention: {said}")


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

    with pytest.raises(RuntimeError, match=r"NVRTC cannot compile attend_step.cu for sm_90"):
        cuda_kernels.cubin("attend_step", (), "sm_90")
    assert destroyed == ["program"]


if torch.version.cuda is not None:  # a build with CUDA brings cuda-bindings and NVRTC, which need no GPU to compile

    @pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_120"])
    @pytest.mark.parametrize("bfloat16", [0, 1])
    def test_the_sources_compile_for_every_kind_of_gpu(architecture: str, bfloat16: int) -> None:
        for heads, width, span in ((16, 64, 128), (12, 64, 256), (4, 16, 128)):
            sizes = ("HEADS", heads), ("WIDTH", width), ("BLOCK", 1024), ("SPAN", span)
            assert cuda_kernels.cubin("attend_step", (("BF16", bfloat16), *sizes), architecture)
            hidden = ("HIDDEN", heads * width)
            assert cuda_kernels.cubin("add_and_norm", (("BF16", bfloat16), hidden), architecture)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("heads", "width"), [(16, 64), (4, 16)])
def test_on_a_gpu_a_row_attends_to_its_own_positions(dtype: Any, heads: int, width: int) -> None:
    torch.manual_seed(heads)
    rows, block = 64, 1024
    cache = torch.randn(rows, 2, heads, block, width, device="cuda").to(dtype)
    qkv = torch.randn(rows, 3 * heads * width, device="cuda").to(dtype)
    at = torch.randint(0, block, (rows,), device="cuda")
    expected_cache = cache.clone()
    assert Cache(torch.zeros(block, heads * width, device="cuda", dtype=dtype), (1, heads, block, width), 1).kernels

    out = torch.ops.voxyard.attend_step(qkv, cache, at, block)
    longest = int(at.max())
    again = torch.ops.voxyard.attend_step(qkv, cache, at, longest + 1)

    assert error(out, attended(qkv, expected_cache, at)) < ERROR[dtype]
    assert torch.equal(cache, expected_cache)
    assert torch.equal(out, again)
    others_idle = torch.zeros_like(at)
    others_idle[3] = at[3]
    assert torch.equal(torch.ops.voxyard.attend_step(qkv, cache, others_idle, block)[3], out[3])


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
