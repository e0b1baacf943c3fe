"""Fixture that runs the scenario once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_driver import FakeDriver
from programs import program
from proof_run import Proof, proof_run
from runs import write_tones


@pytest.fixture(scope="session")
def node_exporter_program() -> str:
    """Path of node_exporter; Debian names it after Prometheus."""
    return program("node_exporter")


@pytest.fixture(scope="session")
def proof(
    driver: FakeDriver,
    prometheus_program: str,
    promtool: str,
    node_exporter_program: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Proof]:
    """Data of a real Prometheus with the project's rules after the scenario."""
    directory = tmp_path_factory.mktemp("proof")
    corpus = write_tones(directory / "corpus", 40)
    programs = {"prometheus": prometheus_program, "promtool": promtool, "node_exporter": node_exporter_program}
    with proof_run(driver, programs, corpus, directory) as played:
        yield played
