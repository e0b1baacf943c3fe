"""Products with weights in 8 bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from voxyard.bark.model.int8 import dense, int8


def layer(inputs: int = 768, outputs: int = 3072, *, bias: bool = True) -> Any:
    torch.manual_seed(0)
    return torch.nn.Linear(inputs, outputs, bias=bias)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 768), (4, 768), (1, 257, 768)])
def test_eight_bits_come_close_to_the_full_product(bias: bool, shape: tuple[int, ...]) -> None:
    module, x = layer(bias=bias), torch.randn(*shape)

    full, small = dense(module)(x), int8(module)(x)

    assert small.shape == full.shape
    assert ((small - full).square().mean() / full.square().mean()).sqrt().item() < 0.02
    assert not torch.equal(small, full)


@pytest.mark.parametrize("batch", [2, 3, 8])
def test_a_row_does_not_depend_on_its_batch(batch: int) -> None:
    product, x = int8(layer()), torch.randn(batch, 768) * torch.logspace(-3, 3, batch)[:, None]

    together = product(x)

    for row in range(batch):
        assert torch.equal(product(x[row : row + 1])[0], together[row])


def test_zeros_give_the_bias() -> None:
    module = layer()

    assert torch.allclose(int8(module)(torch.zeros(2, 768)), module.bias.expand(2, -1))


def test_numbers_that_are_none_stay_so() -> None:
    x = torch.zeros(2, 768)
    x[0, 3] = float("nan")

    found = int8(layer())(x)

    assert found[0].isnan().all()
    assert found[1].isfinite().all()


def test_activations_of_seven_bits_serve_where_the_processor_shares_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    module, x = layer(), torch.randn(4, 768)

    full, small = dense(module)(x), int8(module)(x)

    assert ((small - full).square().mean() / full.square().mean()).sqrt().item() < 0.04
