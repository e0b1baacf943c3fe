"""Text of rendered documents, as the programs of Kubernetes read it."""

from __future__ import annotations

from pathlib import Path

import pytest
from kustomized import builders

from fleet.render.documents import KUSTOMIZATION, config_map, kustomization, to_bytes

# After kubernetes/kubernetes#86772, kubernetes-sigs/kustomize#4081; some have the form of a hash.
TEXTS = ("1e003", "12345678e123", "089012345678", "5E-1", "1.", ".5", "+7", "0o17", "08", "y", "N", "on", "null", "~")


@pytest.mark.parametrize("builder", builders())
def test_a_text_stays_one_whatever_it_looks_like(tmp_path: Path, builder: str) -> None:
    labels = {f"label-{number}": text for number, text in enumerate(TEXTS)}
    written = to_bytes([config_map("x", {}, labels)], "Labels")
    assert all(f": '{text}'\n" in written.decode() for text in TEXTS)
    (tmp_path / "x.yaml").write_bytes(written)
    (tmp_path / KUSTOMIZATION).write_bytes(kustomization("One file", resources=["x.yaml"]))
    (built,) = builders()[builder](tmp_path)
    assert built["metadata"]["labels"] == labels


def test_numbers_and_switches_stay_what_they_are() -> None:
    given = {"port": 8080, "none": 0, "share": 0.5, "large": 1e20, "on": True, "hash": "12e", "word": "yes-1"}
    assert to_bytes([given], "x").decode() == (
        "# x\nport: 8080\nnone: 0\nshare: 0.5\nlarge: 1.0e+20\n'on': true\nhash: 12e\nword: yes-1\n"
    )
