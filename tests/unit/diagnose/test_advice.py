"""Advice: which flags, what gain, and when there is none."""

from __future__ import annotations

from typing import Any

import pytest
from profiles import COLD, advice_facts

from voxyard.diagnose.profile.advice import Recommendation, advise
from voxyard.diagnose.profile.cost_model import Costs
from voxyard.diagnose.profile.facts import AdviceFacts, Probed
from voxyard.host.page_cache import Pages

GPU: dict[str, Any] = {"kind": "gpu", "devices": 2, "pair": (2, 3), "pair_reason": "NV12", "compute_capability": (9, 0)}


def _by_flag(facts: AdviceFacts, flag: str) -> Recommendation:
    found = [each for each in advise(facts) if flag in each.flags]
    assert found, f"no advice with {flag}: {[each.title for each in advise(facts)]}"
    return found[0]


def test_more_threads_gain_what_the_probe_showed() -> None:
    facts = advice_facts(Costs(0.4, 0.05, 0, 0.1), overlapped=0.44, load={"probed": Probed(8, 0.08, COLD)})
    found = _by_flag(facts, "--num-workers")
    assert found.flags == ("--num-workers", "8")
    assert found.gain == pytest.approx(4.0)
    assert found.seconds_per_step == pytest.approx(0.11)
    assert found.then == "training"
    assert not found.bound


def test_threads_that_did_not_help_when_tried_are_not_advised() -> None:
    """A disk that is at its limit."""
    facts = advice_facts(Costs(0.4, 0.05, 0, 0.1), load={"probed": Probed(8, 0.39, COLD)})
    assert not [each for each in advise(facts) if "--num-workers" in each.flags]


def test_more_threads_than_host_batches_need_a_larger_buffer() -> None:
    facts = advice_facts(Costs(0.4, 0.05, 0, 0.1), buffer=4, load={"probed": Probed(8, 0.08, COLD)})
    assert _by_flag(facts, "--num-workers").flags == ("--num-workers", "8", "--buffer-size", "8")


def test_recordings_are_prepared_and_the_command_can_be_copied() -> None:
    found = _by_flag(advice_facts(Costs(0.4, 0.05, 0, 0.1)), "--train-data")
    assert found.command == (
        "voxyard corpus prepare corpus corpus-shards",
        "voxyard train --data-gpu 0 --model-gpu 1 --device cpu --train-data corpus-shards",
    )
    assert found.gain == pytest.approx(4.0)


def test_names_with_spaces_are_quoted() -> None:
    from pathlib import Path

    words = ("train", "--train-data", "my corpus", "--no-xla", "--data-gpu", "0")
    facts = advice_facts(Costs(0.4, 0.05, 0, 0.1), words=words, corpus={"path": Path("my corpus")})
    assert _by_flag(facts, "--train-data").command == (
        "voxyard corpus prepare 'my corpus' 'my corpus-shards'",
        "voxyard train --no-xla --data-gpu 0 --train-data 'my corpus-shards'",
    )


def test_what_fits_goes_into_memory_and_what_does_not_into_a_file() -> None:
    costs = Costs(0.4, 0.05, 0, 0.1)
    assert _by_flag(advice_facts(costs), "--cache-dataset").flags == ("--cache-dataset",)
    found = _by_flag(advice_facts(costs, corpus={"decoded_bytes": 2**36}), "--cache-file")
    assert found.bound


def test_shards_are_not_prepared_again_to_be_read_faster() -> None:
    facts = advice_facts(Costs(0.4, 0.0, 0, 0.1), corpus={"shards": True, "can_precompute": False, "cached": True})
    assert advise(facts) == ()


def test_slow_features_are_precomputed() -> None:
    found = _by_flag(advice_facts(Costs(0.01, 0.4, 0.0, 0.1)), "--train-data")
    assert found.command[0] == "voxyard corpus prepare --features corpus corpus-features"
    assert found.gain == pytest.approx(4.0)


def test_on_gpus_precomputed_features_free_the_data_gpu() -> None:
    facts = advice_facts(Costs(0.01, 0.4, 0.02, 0.1), host=GPU)
    found = _by_flag(facts, "--train-data")
    assert found.command[1] == "voxyard train --model-gpu 1 --device cpu --train-data corpus-features --strategy single"
    assert found.gain == pytest.approx(0.42 / 0.12)


@pytest.mark.parametrize("corpus", [{"features": True}, {"can_precompute": False}])
def test_features_that_are_there_or_that_change_with_every_step_are_not_precomputed(corpus: dict[str, bool]) -> None:
    facts = advice_facts(Costs(0.01, 0.4, 0.0, 0.1), corpus=corpus)
    assert not [each for each in advise(facts) if "--train-data" in each.flags]


def test_a_slow_copy_is_saved_by_one_device() -> None:
    found = _by_flag(advice_facts(Costs(0.01, 0.05, 0.4, 0.1)), "--strategy")
    singles = [each for each in advise(advice_facts(Costs(0.01, 0.05, 0.4, 0.1))) if "single" in each.flags]
    assert found.command[-1].startswith("voxyard train")
    assert singles[0].gain == pytest.approx(3.0)
    assert singles[0].command == ("voxyard train --train-data corpus --device cpu --strategy single",)


def test_a_better_pair_is_named_with_the_most_that_it_can_gain() -> None:
    found = _by_flag(advice_facts(Costs(0.01, 0.05, 0.4, 0.1), host=GPU), "--data-gpu")
    assert found.flags == ("--data-gpu", "2", "--model-gpu", "3")
    assert found.bound
    assert found.gain == pytest.approx(4.5)
    same = advice_facts(Costs(0.01, 0.05, 0.4, 0.1), host=GPU | {"pair": (0, 1)})
    assert not [each for each in advise(same) if "--data-gpu" in each.flags]


def test_a_slow_model_is_trained_on_all_devices() -> None:
    found = _by_flag(advice_facts(Costs(0.01, 0.05, 0.0, 0.4), data_wait_share=0.0), "--strategy")
    assert found.flags == ("--strategy", "mirrored")
    assert found.gain == pytest.approx(2 * 0.4 / 0.45)
    assert found.seconds_per_step == pytest.approx(0.45)


def test_what_no_stage_time_predicts_is_only_bounded() -> None:
    host = GPU | {"pair": (0, 1), "model_memory_share": 0.3, "recommended_batch": 48}
    facts = advice_facts(Costs(0.01, 0.05, 0.0, 0.4), data_wait_share=0.0, host=host)
    for flag in ("--precision", "--xla", "--batch-size"):
        found = _by_flag(facts, flag)
        assert found.bound
        assert found.seconds_per_step is None
        assert found.gain_text().startswith("at most")
    assert _by_flag(facts, "--precision").flags == ("--precision", "bfloat16")
    titles = [each.title for each in advise(facts)]
    assert titles[0].startswith("train on all")  # what is predicted comes first


def test_recomputation_costs_a_quarter_of_a_step() -> None:
    facts = advice_facts(Costs(0, 0.05, 0, 0.4), recompute=True, words=("train", "--recompute"))
    found = _by_flag(facts, "--no-recompute")
    assert found.gain == pytest.approx(4 / 3)
    assert found.command == ("voxyard train --no-recompute",)


def test_a_ring_of_one_slot_gets_three() -> None:
    found = _by_flag(advice_facts(Costs(0.01, 0.2, 0, 0.3, slots=1)), "--prefetch-buffer-size")
    assert found.flags == ("--prefetch-buffer-size", "3")
    assert found.gain == pytest.approx(0.5 / 0.3)


def test_waiting_that_no_mean_explains_gets_more_slots() -> None:
    facts = advice_facts(Costs(0.01, 0.2, 0, 0.3), overlapped=0.36, data_wait_share=0.15)
    found = _by_flag(facts, "--prefetch-buffer-size")
    assert (found.flags[1], found.bound) == ("6", True)
    assert found.gain == pytest.approx(1.2)


def test_shapes_without_end_are_padded_to_buckets() -> None:
    words = ("train", "--no-enable-static-shapes")
    facts = advice_facts(Costs(0.01, 0.2, 0, 0.3), with_tracing=0.6, static_shapes=False, words=words)
    found = _by_flag(facts, "--enable-static-shapes")
    assert found.command == ("voxyard train --enable-static-shapes",)
    assert found.gain == pytest.approx(2.0)


def test_a_data_gpu_with_nothing_to_do_is_set_free() -> None:
    facts = advice_facts(
        Costs(0, 0.01, 0.001, 0.4), data_wait_share=0.0, precision="bfloat16", xla=True, host=GPU | {"pair": (0, 1)}
    )
    found = [each for each in advise(facts) if "single" in each.flags]
    assert found[0].gain == pytest.approx(0.4 / 0.41)
    assert "--data-gpu" not in found[0].command[0]


def test_the_pair_is_advised_to_a_run_on_one_gpu_of_several() -> None:
    words = ("train", "--strategy", "single", "--model-gpu", "3")
    facts = advice_facts(Costs(0, 0.2, 0, 0.4, layout="single"), pair=None, words=words, host=GPU)
    found = _by_flag(facts, "--data-gpu")
    assert found.bound
    assert found.gain == pytest.approx(1.5)
    assert found.command == ("voxyard train --data-gpu 2 --model-gpu 3",)


def test_a_gain_without_a_bound_is_no_number() -> None:
    facts = advice_facts(Costs(0, 0.2, 0, 0.4, layout="single"), pair=None, host=GPU)
    found = _by_flag(facts, "--xla")
    assert (found.gain, found.seconds_per_step, found.gain_text()) == (None, None, "gain not predicted")


def test_a_run_that_nothing_can_help_gets_no_advice() -> None:
    facts = advice_facts(Costs(0.0, 0.0, 0.0, 0.4, layout="mirrored"), pair=None, data_wait_share=0.0)
    assert advise(facts) == ()


def _flags(facts: AdviceFacts) -> set[str]:
    return {flag for each in advise(facts) for flag in each.flags if flag.startswith("--")}


READING = {"--num-workers", "--train-data", "--cache-dataset", "--cache-file"}


@pytest.mark.parametrize("size", [2**30, 2**36])
@pytest.mark.parametrize("cached", [100, 50])
def test_of_reads_from_memory_neither_threads_nor_shards_nor_a_cache_follow(cached: int, size: int) -> None:
    """The page cache is not the disk: 32 threads once gained 27× there."""
    load: dict[str, Any] = {"probed": Probed(8, 0.08, COLD)}
    costs = Costs(0.4, 0.001, 0, 0.1)
    facts = advice_facts(costs, load=load, corpus={"decoded_bytes": size})
    assert _flags(facts) & READING
    warm = advice_facts(costs, load=load | {"pages": Pages(100, cached)}, corpus={"decoded_bytes": size})
    assert not _flags(warm) & READING


def test_threads_that_were_tried_on_the_page_cache_are_not_advised() -> None:
    facts = advice_facts(Costs(0.4, 0.05, 0, 0.1), load={"probed": Probed(8, 0.08, Pages(100, 100))})
    assert "--num-workers" not in _flags(facts)
    assert "--train-data" in _flags(facts)


def test_features_are_still_advised_on_a_warm_corpus_but_reading_earns_them_nothing() -> None:
    costs = Costs(0.3, 0.4, 0.0, 0.1)
    assert _by_flag(advice_facts(costs), "--train-data").gain == pytest.approx(4.0)
    warm = advice_facts(costs, load={"pages": Pages(100, 100)})
    assert _by_flag(warm, "--train-data").gain == pytest.approx(0.4 / 0.3)


def test_shards_are_a_bound_where_the_threads_wait_for_the_disk() -> None:
    """Uncached clips come from the same disk."""
    waits = advice_facts(Costs(0.4, 0.05, 0, 0.1), load={"in_thread": 0.8, "cpu": 0.1})
    decodes = advice_facts(Costs(0.4, 0.05, 0, 0.1), load={"in_thread": 0.8, "cpu": 0.7})
    assert (_by_flag(waits, "--train-data").bound, _by_flag(decodes, "--train-data").bound) == (True, False)
