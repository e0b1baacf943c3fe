"""Options: possible changes on this host, each with the stage costs after it. No TensorFlow."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from voxyard.diagnose.profile.cost_model import Costs
from voxyard.diagnose.profile.facts import AdviceFacts
from voxyard.trainer.reporting.figures import sized, took

WORTH = 1.05
"""Advice that gains less is not given."""
CACHE_SHARE = 0.5  # of the available memory, that --cache-dataset may take (the trainer's own bound)
MORE_SLOTS = 3
RECOMPUTE_GAIN = 4 / 3
"""A step that recomputes is two forward passes and a backward one of about two: without, 3 of 4 units remain.

T. Chen et al. (2016), "Training deep nets with sublinear memory cost": one additional forward pass a step.
"""


_SPLIT_ONLY = ("--data-gpu", "--data-gpu-memory", "--vocoder-on")


@dataclass(frozen=True)
class Change:
    """Flags of `voxyard train` to set (a value, or None for a switch) and to leave out, and commands to run before."""

    set: Mapping[str, str | None]
    drop: tuple[str, ...] = ()
    before: tuple[str, ...] = ()  # commands, as they are typed


@dataclass(frozen=True)
class Option:
    """A possible change, and the costs of the pipeline after it."""

    title: str
    change: Change
    after: Costs
    why: str
    bound: bool = False
    most: float | None = None  # a bound that does not follow from `after`
    always: bool = False  # given though it gains nothing: it saves something else


def options(facts: AdviceFacts) -> Iterator[Option]:
    """All possible changes, whatever they gain."""
    yield from _for_load(facts)
    yield from _for_features(facts)
    yield from _for_transfer(facts)
    yield from _for_train(facts)
    yield from _for_waiting(facts)
    yield from _for_layout(facts)


# -- load --------------------------------------------------------------------------------------------------------


def _for_load(facts: AdviceFacts) -> Iterator[Option]:
    """More threads: the stage as probed with so many. From memory: load = from_memory ÷ min(threads, cores).

    Nothing where the clips came from the page cache: what the disk takes is not known then.
    """
    if not facts.load.pages.trusted:
        return
    load, corpus, costs = facts.load, facts.corpus, facts.costs
    busy = load.cpu / load.in_thread if load.in_thread else 0.0
    tried = load.probed
    if tried is not None and tried.pages.trusted:
        flags = {"--num-workers": str(tried.workers)}
        if tried.workers > facts.buffer:
            flags["--buffer-size"] = str(tried.workers)
        yield Option(
            f"read with {tried.workers} threads instead of {load.workers}",
            Change(flags),
            costs.changed(load=tried.seconds),
            f"a thread computes only {busy:.0%} of its time; tried: {tried.workers} threads alone bring a "
            f"batch every {took(tried.seconds)} instead of {took(costs.load)}",
        )
    memory, waits = _read_from_memory(facts), busy < 0.5
    if not corpus.shards:
        target = f"{str(corpus.path).rstrip('/')}-shards"
        prepare = shlex.join(["voxyard", "corpus", "prepare", *_corpus_words(facts), str(corpus.path), target])
        yield Option(
            "prepare the corpus once as shards",
            Change({"--train-data": target}, ("--cache-dataset", "--cache-file"), (prepare,)),
            memory,
            f"clips are then decoded and resampled once, and read by memory map ({sized(corpus.decoded_bytes)}); "
            f"padding a batch from memory takes a thread {took(load.from_memory)} instead of {took(load.in_thread)}"
            + ("; what is not in memory yet comes at the pace of the disk" if waits else ""),
            bound=waits or corpus.decoded_bytes > facts.host.available_bytes,
        )
    if not corpus.cached and not corpus.features:
        fits = corpus.decoded_bytes <= CACHE_SHARE * facts.host.available_bytes
        yield Option(
            "keep the decoded clips in memory" if fits else "keep the decoded clips in a file on a fast disk",
            Change({"--cache-dataset": None} if fits else {"--cache-file": "/FAST/DISK/clips.cache"}),
            memory,
            f"from the second epoch on every clip comes decoded ({sized(corpus.decoded_bytes)}, of which half of "
            f"{sized(facts.host.available_bytes)} available {'is enough' if fits else 'is not enough'})",
            bound=not fits,
        )


def memory_load(facts: AdviceFacts) -> float:
    """Seconds a batch of the load stage where the clips lie in memory: from_memory ÷ min(threads, cores)."""
    return facts.load.from_memory / max(1, min(facts.load.workers, facts.host.cores))


def _read_from_memory(facts: AdviceFacts) -> Costs:
    """With the clips in memory; as they are where it is not known what reading takes."""
    if not facts.load.pages.trusted:
        return facts.costs
    return facts.costs.changed(load=memory_load(facts))


# -- features ----------------------------------------------------------------------------------------------------


def _for_features(facts: AdviceFacts) -> Iterator[Option]:
    """Precomputed: features = 0, load = what comes from memory; on GPUs by one device: max(L, T + M)."""
    corpus, costs = facts.corpus, facts.costs
    if corpus.features or not corpus.can_precompute or costs.layout == "mirrored":
        return
    if costs.changed(features=0.0).gain_over(costs) < WORTH and not _features_are_next(facts):
        return
    target = f"{str(corpus.path).rstrip('/')}-features"
    prepare = ["voxyard", "corpus", "prepare", "--features", *_corpus_words(facts)]
    after = _read_from_memory(facts).changed(features=0.0)
    flags: dict[str, str | None] = {"--train-data": target}
    drop: tuple[str, ...] = ("--cache-dataset", "--cache-file")
    freed = ""
    if facts.host.kind == "gpu" and costs.layout == "split":
        after = after.changed(layout="single")
        flags["--strategy"] = "single"
        drop = (*drop, *_SPLIT_ONLY)
        freed = "; the data GPU is free for something else then"
    if corpus.shards:
        yield Option(
            "prepare the corpus again with features, from the recordings",
            Change(flags, drop, (shlex.join([*prepare, "RECORDINGS", target]),)),
            after,
            f"features cost {took(costs.features)} a batch, every epoch the same ones{freed}",
        )
        return
    yield Option(
        "prepare the corpus once with its features",
        Change(flags, drop, (shlex.join([*prepare, str(corpus.path), target]),)),
        after,
        f"features cost {took(costs.features)} a batch, every epoch the same ones{freed}",
    )


def _features_are_next(facts: AdviceFacts) -> bool:
    """True where features are the limit once the clips come from memory."""
    read = _read_from_memory(facts)
    return read.changed(features=0.0).gain_over(read) >= WORTH


def _corpus_words(facts: AdviceFacts) -> list[str]:
    """The settings of the run that a corpus is prepared with."""
    words: list[str] = []
    kept = iter(facts.words)
    for word in kept:
        if word in _CORPUS_FLAGS:
            words += [word, next(kept)]
        elif word in _CORPUS_SWITCHES:
            words.append(word)
    return words


_CORPUS_FLAGS = frozenset(
    {
        "--model-size", "--model-module", "--text-units", "--language", "--sample-rate", "--fft-size", "--hop-length",
        "--mels", "--mel-low-hz", "--mel-high-hz", "--pre-emphasis", "--max-bad-share",
        "--max-dropped-text",
    }
)  # fmt: skip
_CORPUS_SWITCHES = frozenset({"--read-words", "--no-read-words"})


# -- transfer ----------------------------------------------------------------------------------------------------


def _for_transfer(facts: AdviceFacts) -> Iterator[Option]:
    """A better pair: transfer > 0, so at most transfer = 0. One device: max(L, F + M), nothing to copy."""
    costs, host = facts.costs, facts.host
    if costs.layout != "split":
        return
    best = None if host.pair is None else (str(host.pair[0]), str(host.pair[1]))
    if host.pair is not None and best != facts.pair:
        yield Option(
            f"take GPU {host.pair[0]} and GPU {host.pair[1]}",
            Change({"--data-gpu": str(host.pair[0]), "--model-gpu": str(host.pair[1])}),
            costs.changed(transfer=0.0),
            f"the recommended pair of this host: {host.pair_reason}; the copy takes {took(costs.transfer)} now",
            bound=True,
        )
    yield Option(
        "train on one device",
        Change({"--strategy": "single"}, _SPLIT_ONLY if host.kind == "gpu" else (*_SPLIT_ONLY, "--model-gpu")),
        costs.changed(layout="single", transfer=0.0),
        f"nothing has to be copied then: features {took(costs.features)} and training {took(costs.train)} by turns, "
        f"against {took(costs.data)} of features and transfer now",
    )


# -- train -------------------------------------------------------------------------------------------------------


def _for_train(facts: AdviceFacts) -> Iterator[Option]:
    """Bounds: the step can at best vanish, train = 0; without recomputation 3 of its 4 units remain."""
    costs, host = facts.costs, facts.host
    gone = costs.changed(train=0.0)
    if host.kind == "gpu" and facts.precision == "float32" and (host.compute_capability or (0, 0)) >= (7, 0):
        wanted = "bfloat16" if (host.compute_capability or (0, 0)) >= (8, 0) else "float16"
        yield Option(
            f"train in {wanted}", Change({"--precision": wanted}), gone,
            f"the model GPU has fast units for {wanted}; a step takes {took(costs.train)} in float32", bound=True,
        )  # fmt: skip
    if host.kind == "gpu" and not facts.xla:
        yield Option(
            "compile with XLA", Change({"--xla": None}, ("--no-xla",)), gone.changed(features=0.0),
            "features and step run as single operations now; XLA fuses them", bound=True,
        )  # fmt: skip
    if facts.recompute:
        yield Option(
            "do not recompute activations", Change({"--no-recompute": None}, ("--recompute",)),
            costs.changed(train=costs.train / RECOMPUTE_GAIN),
            "recomputation pays memory with a second forward pass; without it a step is 3 units of work instead of 4",
            bound=True,
        )  # fmt: skip
    if _has_room(facts):
        batch = facts.host.recommended_batch or 0
        yield Option(
            f"larger batches: {batch} clips instead of {facts.batch_size}",
            Change({"--batch-size": str(batch)}), gone,
            f"the model GPU uses {host.model_memory_share or 0:.0%} of its memory; what a step costs whatever its size "
            "is spread over more clips",
            bound=True,
        )  # fmt: skip


def _has_room(facts: AdviceFacts) -> bool:
    share, batch = facts.host.model_memory_share, facts.host.recommended_batch
    return share is not None and share < 0.6 and batch is not None and batch > facts.batch_size


# -- waiting that no mean explains -------------------------------------------------------------------------------


def _for_waiting(facts: AdviceFacts) -> Iterator[Option]:
    """A ring of one slot: max(L, D + M) → max(L, D, M). More slots: at most overlapped ÷ ideal.

    Length buckets: at most the mean step with the traced ones ÷ the mean without them.
    """
    costs = facts.costs
    if costs.slots == 1:
        yield Option(
            "give the ring three slots", Change({"--prefetch-buffer-size": "3"}), costs.changed(slots=3),
            f"with one slot the data device ({took(costs.data)}) and the model device ({took(costs.train)}) take turns",
        )  # fmt: skip
    elif facts.data_wait_share >= 0.05 and costs.train >= 0.95 * max(costs.load, costs.data):
        slots = costs.slots + MORE_SLOTS
        yield Option(
            f"give the ring {slots} slots", Change({"--prefetch-buffer-size": str(slots)}), costs,
            f"on average every stage is fast enough, and still the model waits {facts.data_wait_share:.0%}: "
            "stages that vary in length need more batches between them",
            bound=True, most=facts.overlapped / costs.step,
        )  # fmt: skip
    if not facts.static_shapes:
        yield Option(
            "pad to length buckets", Change({"--enable-static-shapes": None}, ("--no-enable-static-shapes",)), costs,
            "every new shape is traced and compiled; with buckets that ends after a few steps",
            bound=True, most=facts.with_tracing / facts.overlapped,
        )  # fmt: skip


# -- another layout ----------------------------------------------------------------------------------------------


def _for_layout(facts: AdviceFacts) -> Iterator[Option]:
    """Mirrored over n devices: (F + M) a batch of each, so n · clips in max(n · L, F + M); all-reduce not counted."""
    costs, host = facts.costs, facts.host
    if costs.layout == "split" or (costs.layout == "single" and host.kind == "gpu" and host.devices > 1):
        count = host.devices
        yield Option(
            f"train on all {count} devices (mirrored)",
            Change({"--strategy": "mirrored"}, (*_SPLIT_ONLY, "--model-gpu")),
            costs.changed(
                layout="mirrored", load=count * costs.load, transfer=0.0, features=0.0,
                train=costs.features + costs.train, samples=count * costs.samples,
            ),
            f"each device does features and training ({took(costs.features + costs.train)}) for a batch of its own, "
            f"{count} batches a step: the effective batch grows; the exchange of gradients is not counted "
            "(--strategy auto times it)",
        )  # fmt: skip
    if host.kind != "gpu":
        return
    if costs.layout == "split":
        alone = costs.changed(layout="single", transfer=0.0)
        if 0.9 <= (loss := alone.gain_over(costs)) < WORTH:
            yield Option(
                "train on one GPU, and free the other",
                Change({"--strategy": "single"}, _SPLIT_ONLY),
                alone,
                f"the data GPU can work {costs.data / max(costs.data, costs.train):.0%} of the time at most; one GPU "
                f"alone keeps {loss:.0%} of the rate",
                always=True,
            )
    elif costs.layout == "single" and host.pair is not None:
        yield Option(
            f"let GPU {host.pair[0]} prepare the data",
            Change({"--data-gpu": str(host.pair[0]), "--model-gpu": str(host.pair[1])}, ("--strategy",)),
            costs.changed(layout="split"),
            f"{host.pair_reason}; features ({took(costs.features)}) run beside training ({took(costs.train)}) then; "
            "the copy between the GPUs is not counted",
            bound=True,
        )
