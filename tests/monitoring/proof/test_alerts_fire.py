"""Every alert fires in a real Prometheus for its injected fault, and for nothing else."""

from __future__ import annotations

import pytest
from faulty_metrics import RUN as SICK_RUN
from faulty_metrics import SMALL_FLAPPING, SMALL_MODEL, SMALL_RUN
from monitoring_queries import rules
from proof_run import (
    BARE,
    BARK,
    BROKEN,
    DATA,
    DEAD_GATEWAY,
    GATEWAY,
    GONE,
    GPUS,
    HOST,
    HOT,
    LOCKED,
    LONELY_GATEWAY,
    LOST,
    MODEL,
    RUN,
    SICK,
    SILENT,
    SMALL,
    Proof,
)

pytestmark = pytest.mark.timeout(1200)

Labels = dict[str, str]


def gpu(index: int, instance: str = HOST, **more: str) -> Labels:
    return {"instance": instance, "gpu": str(index), **more}


SICK_BARK = {"instance": SICK}
SICK_TRAINING = {"instance": SICK, "run": SICK_RUN}
PLANTED: dict[str, list[Labels]] = {
    "Watchdog": [{}],
    "GpuUtilizationLow": [gpu(SMALL_MODEL, GONE, role="model")],
    "GpuWorkSmall": [gpu(SMALL_MODEL, SMALL, role="model")],
    "DataGpuUtilizationLow": [gpu(DATA, role="data")],
    "GpuLost": [gpu(LOST)],  # not those of the sick host, whose driver answers for none
    "GpuFlapping": [gpu(SMALL_FLAPPING, SMALL)],
    "GpuMissing": [{"instance": HOST}],  # its plan counts one more than there are
    "GpuXidCritical": [gpu(LOST, xid="79")],
    "GpuXidWarning": [gpu(BROKEN, xid="94")],
    "GpuEccUncorrectable": [gpu(BROKEN)],
    "GpuRowRemapFailure": [gpu(BROKEN)],
    "GpuRowRemapPending": [gpu(BROKEN)],
    "GpuRetiredPages": [gpu(BROKEN)],
    "GpuRecoveryNeeded": [gpu(BROKEN, action="reset")],
    "GpuOutOfWork": [gpu(BROKEN, state="out"), gpu(LOST)],
    "GpuThermalSlowdown": [gpu(HOT)],
    "GpuTemperatureHigh": [gpu(HOT)],
    "GpuPowerBrake": [gpu(HOT)],
    "GpuPowerCapped": [gpu(BARK)],
    "GpuClocksLow": [gpu(LOCKED)],
    "GpuStranger": [gpu(BARK)],
    "GpuMemoryNearLimit": [gpu(MODEL)],
    "PcieLinkDowngraded": [gpu(HOT)],
    "PcieLinkSlow": [gpu(BARK)],
    "PcieReplays": [gpu(HOT)],
    "GpuNvlinkErrors": [gpu(HOT, kind="crc")],
    "NvmlErrors": [{"instance": SMALL, "code": "999"}],
    "HostPressure": [{"instance": SICK, "resource": "io"}],
    "TrainingPairLinkSlow": [gpu(DATA, link="SYS", peer=GPUS[MODEL].uuid)],
    "WorkloadDown": [{"instance": HOST, "workload": "trainer"}],
    "ConfigurationDrift": [{"instance": SICK, "workload": "bark"}],
    "TrainingStalled": [SICK_TRAINING],
    "TrainingInputBound": [SICK_TRAINING | {"cause": "input_storage"}],
    "TrainingCrashLoop": [{"instance": SMALL, "run": SMALL_RUN}],
    "TrainingStepTimeUnstable": [SICK_TRAINING],
    "TrainingLossNotFinite": [SICK_TRAINING | {"component": "total"}],
    "BarkQueueGrowing": [SICK_BARK],
    "BarkChunksFailing": [SICK_BARK],
    "BarkChunksRetried": [SICK_BARK | {"gpu": "3"}],
    "BarkSpeechFaulty": [SICK_BARK | {"gpu": "2", "model": "bark"}],
    "BarkWorkerWaits": [SICK_BARK | {"gpu": "4", "reason": "memory"}],
    "BarkWorkersDown": [SICK_BARK],
    "FirstSoundBudgetBurns": [SICK_BARK | {"objective": "first_sound"}],
    "FirstSoundBudgetErodes": [SICK_BARK | {"objective": "first_sound"}],
    "StreamsBudgetBurns": [SICK_BARK | {"objective": "streams"}],
    "StreamsBudgetErodes": [SICK_BARK | {"objective": "streams"}],
    "DocumentsBudgetBurns": [SICK_BARK | {"objective": "documents"}],
    "DocumentsBudgetErodes": [SICK_BARK | {"objective": "documents"}],
    "BarkSlowerThanRealTime": [SICK_BARK | {"gpu": "2"}],
    "HostGone": [{"instance": GONE}],
    "HostRebooting": [{"instance": GONE, "job": "node"}],
    "ServiceRestarting": [{"instance": SMALL, "job": "exporter"}],
    "ExporterDown": [{"instance": name, "job": "exporter"} for name in (SILENT, GONE)],
    "NodeExporterDown": [{"instance": BARE, "job": "node"}],
    "ExporterCollectFailing": [{"instance": SICK}],
    "ExporterCollectStale": [{"instance": SICK}],
    "GatewayDown": [{"instance": DEAD_GATEWAY, "job": "gateway"}],
    "GatewayNoServiceReady": [{"instance": LONELY_GATEWAY, "proxy": "ready"}],
    "GatewayServiceDown": [{"instance": SILENT, "gateway": GATEWAY, "workload": "bark"}],
    "StoreUnreachable": [{"instance": SMALL}],
    "ClaimsRunOut": [{"instance": BARE, "owner": BARE}],
    "ShelfUnreachable": [{"instance": SMALL}],
    "ShelfFull": [SICK_BARK],
    "ClusterHeadDown": [{"instance": SILENT, "job": "cluster-head"}],
    "ClusterHostMissing": [{"instance": SICK, "job": "cluster-worker"}],
    "ClockSkew": [{"instance": SMALL, "job": "node"}],
    "HostDiskFilling": [{"instance": SICK, "mountpoint": "/"}],
    "HostMemoryLow": [{"instance": SICK}],
}
LONG = {
    *("TrainingCheckpointsLong", "TrainingValidationLong", "TrainingLossDiverging", "TrainingLossFlat"),
    *("TrainingSlowerThanBefore", "BarkSlowerThanBefore", "TrainingPhaseSlow", "GpuBusyInPart", "GpuNvlinksDown"),
    *("GpuMemoryTemperatureHigh", "GpuEccCorrectedStorm", "GpuMigSwitchedOn", "GpuFabricFailed"),
    *("GatewayUneven", "StoreSlow", "HostMaintenance"),
}
"""They look back for longer than the scenario lasts, or its cards are well in this: the bench of alerts plants them."""
OF_THIS_MACHINE = {
    "TrainingInputBound",
    "TrainingStepTimeUnstable",
    "BarkSlowerThanRealTime",
    *("FirstSoundBudgetBurns", "FirstSoundBudgetErodes", "StreamsBudgetBurns", "StreamsBudgetErodes"),
    "HostDiskFilling",
    "HostMemoryLow",
    "HostPressure",
    "ShelfFull",
}
"""The real programs run on the machine of the test, which may well be slow or full: these may fire for it too."""


def test_every_alert_has_something_planted_for_it() -> None:
    assert sorted({*PLANTED} | LONG) == rules("alert")


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_an_alert_fires_for_what_was_planted_and_for_nothing_else(proof: Proof, name: str) -> None:
    selector = f'ALERTS{{alertname="{name}",alertstate="firing"}}'
    fired = [each["metric"] for each in proof.server.query_range(selector, proof.start, proof.end)]
    missing = [labels for labels in PLANTED[name] if not any(labels.items() <= found.items() for found in fired)]
    assert missing == []
    if name not in OF_THIS_MACHINE:
        planned = [*PLANTED[name], *(bark_not_scraped(proof) if name == "WorkloadDown" else ())]
        if name == "GpuLost":  # a busy machine scrapes a loss of the card that comes and goes for long enough
            planned += PLANTED["GpuFlapping"]
        beside = [found for found in fired if not any(labels.items() <= found.items() for labels in planned)]
        assert beside == []


def bark_not_scraped(proof: Proof) -> list[Labels]:
    """Bark's labels where this machine was too busy to answer each of its scrapes, which are a second apart at most."""
    missed = proof.server.query_range(f'up{{job="bark",instance="{HOST}"}} == 0', proof.start, proof.end)
    return [{"instance": HOST, "workload": "bark"}] if missed else []


def test_the_trainer_is_missed_only_once_it_was_killed(proof: Proof) -> None:
    (found,) = (
        each
        for each in proof.server.query_range(
            'ALERTS{alertname="WorkloadDown",alertstate="firing"}', proof.start, proof.end
        )
        if not any(labels.items() <= each["metric"].items() for labels in bark_not_scraped(proof))
    )  # one: neither Bark nor the other host's workloads
    assert float(found["values"][0][0]) > proof.killed


def test_a_gpu_that_is_lost_has_no_measurement_left_and_the_others_go_on(proof: Proof) -> None:
    here = f'instance="{HOST}",job="exporter"'
    measured = proof.server.query(f"voxyard_gpu_power_watts{{{here}}}", proof.end)
    assert sorted(each["metric"]["gpu"] for each in measured) == [str(n) for n in range(len(GPUS)) if n != LOST]


def test_an_annotation_marks_the_run_of_this_test(proof: Proof) -> None:
    active = f'voxyard_train_active{{run="{RUN}"}}'
    times = [float(at) for each in proof.server.query_range(active, proof.start, proof.end) for at, _ in each["values"]]
    assert proof.start < min(times) < max(times) < proof.killed + 6
