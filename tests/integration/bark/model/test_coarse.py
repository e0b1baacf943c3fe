"""The coarse stage: a sliding window whose cache is kept where it is still right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from voxyard.bark.model import coarse
from voxyard.bark.model.coarse import CoarseWork
from voxyard.bark.model.decode import Decoder
from voxyard.bark.model.gpt import causal_gpt
from voxyard.bark.model.noise import key
from voxyard.bark.weights.checkpoint import BarkCheckpoint


def work_of(number: int, length: int, voice: Any = None) -> CoarseWork:
    semantic = np.random.default_rng(number).integers(0, 10_000, length).tolist()
    return CoarseWork(number, semantic, voice, key(7, number, 0, "coarse"))


def spoken(
    checkpoint: BarkCheckpoint, work: list[CoarseWork], *, rows: int = 1, temperature: float = 0.7, skip: bool = True
) -> dict[int, Any]:
    gpt = causal_gpt(checkpoint.model.coarse_acoustics)
    found: list[coarse.CoarseOutcome] = []
    decoder = Decoder(gpt, gpt.cache(rows))
    coarse.speak(decoder, checkpoint.layout.coarse, work, temperature, found.append, skip=skip)
    assert len(found) == len(work)
    assert all(each.finite for each in found)
    return {each.number: each.codes.tolist() for each in found}


def transformers_codes(checkpoint: BarkCheckpoint, work: CoarseWork, voice: Any = None) -> Any:
    from transformers.models.bark import generation_configuration_bark

    settings: Any = generation_configuration_bark
    given = checkpoint.model.generation_config
    greedy = {**given.coarse_acoustics_config, "do_sample": False, "temperature": 1.0}
    tokens = checkpoint.model.coarse_acoustics.generate(
        torch.tensor([work.semantic]),
        semantic_generation_config=settings.BarkSemanticGenerationConfig(**given.semantic_config),
        coarse_generation_config=settings.BarkCoarseGenerationConfig(**greedy),
        codebook_size=given.codebook_size,
        history_prompt=voice.for_transformers() if voice else None,
    )
    return tokens[0].numpy().reshape(-1, 2).T


@pytest.mark.parametrize(
    ("length", "voice"),
    [(30, None), pytest.param(260, None, marks=pytest.mark.slow), (90, (400, 600)), (60, (21, 500)), (60, (400, 20))],
)
@pytest.mark.parametrize("skip", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_greedy_codes_equal_those_of_transformers(
    endless: BarkCheckpoint, history: Any, length: int, voice: tuple[int, int] | None, skip: bool
) -> None:
    past = history.random(*voice) if voice else None
    work = work_of(3, length, past)
    expected = transformers_codes(endless, work, past)

    found = np.array(spoken(endless, [work], temperature=0, skip=skip)[3])

    assert len(np.unique(expected)) > 20
    np.testing.assert_array_equal(found, (expected - 10_000) % 1024)


def test_the_first_window_equals_a_full_forward_without_cache(endless: BarkCheckpoint) -> None:
    work, layout, model = work_of(5, 35), endless.layout.coarse, endless.model.coarse_acoustics
    fed = [*work.semantic, *[layout.pad] * (layout.window - 35), layout.infer]
    for step in range(60):
        first = layout.first + step % 2 * layout.codebook
        logits = model(input_ids=torch.tensor([fed]), use_cache=False).logits[0, -1]
        fed.append(first + int(logits[first : first + layout.codebook].argmax()))

    found = np.array(spoken(endless, [work], temperature=0)[5]).T.reshape(-1)

    np.testing.assert_array_equal(found[:60], (np.array(fed[layout.window + 1 :]) - layout.first) % layout.codebook)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_skipping_prefills_changes_no_code(checkpoint: BarkCheckpoint, history: Any, temperature: float) -> None:
    voices = (None, history.random(400, 600), history.random(30, 60))
    work = [work_of(number, 40 + 130 * number, voices[number]) for number in range(3)]

    kept, anew = (spoken(checkpoint, work, rows=2, temperature=temperature, skip=skip) for skip in (True, False))

    assert kept == anew


def test_without_a_voice_one_prefill_is_enough_until_the_history_slides(
    checkpoint: BarkCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefills: list[int] = []
    plain = Decoder.prefill

    def counted(decoder: Decoder, windows: Any) -> None:
        prefills.extend(len(embedded) for _, embedded in windows)
        plain(decoder, windows)

    monkeypatch.setattr(Decoder, "prefill", counted)

    spoken(checkpoint, [work_of(0, 205)])
    within = len(prefills)
    spoken(checkpoint, [work_of(0, 260)])

    assert within == 1  # 616 tokens
    assert len(prefills) - within > 2


@pytest.mark.parametrize("rows", [2, *(pytest.param(rows, marks=pytest.mark.slow) for rows in (3, 4))])
def test_a_chunk_does_not_depend_on_its_batch_mates(checkpoint: BarkCheckpoint, history: Any, rows: int) -> None:
    work = [
        work_of(number, 25 + 45 * (number % 3), history.random(300, 450) if number % 2 else None) for number in range(6)
    ]
    alone = {number: spoken(checkpoint, [work[number]], rows=rows)[number] for number in range(6)}

    for order in (work, work[::-1], work[2:] + work[:2]):
        assert spoken(checkpoint, order, rows=rows) == alone


def test_numbers_that_are_none_stay_with_their_chunk(checkpoint: BarkCheckpoint) -> None:
    gpt, layout = causal_gpt(checkpoint.model.coarse_acoustics), checkpoint.layout.coarse
    work = [work_of(number, 60) for number in range(5)]
    poisoned = gpt.tokens.clone()
    (only,) = set(work[1].semantic[:1]).difference(*(each.semantic for each in work if each.number != 1))
    poisoned[only] = float("nan")
    clean = spoken(checkpoint, work, rows=2)
    found: list[coarse.CoarseOutcome] = []

    coarse.speak(Decoder(replace(gpt, tokens=poisoned), gpt.cache(2)), layout, work, 0.7, found.append)

    assert [each.number for each in found if not each.finite] == [1]
    assert {each.number: each.codes.tolist() for each in found if each.finite} == {
        number: codes for number, codes in clean.items() if number != 1
    }


@pytest.mark.parametrize(("length", "frames"), [(0, 0), (1, 1), (2, 3), (100, 150), (499, 750)])
def test_there_are_three_frames_for_two_semantic_tokens(checkpoint: BarkCheckpoint, length: int, frames: int) -> None:
    if length > 200:
        assert coarse.length(length, checkpoint.layout.coarse) == 2 * frames
        return

    codes = np.array(spoken(checkpoint, [work_of(0, length)])[0])

    assert codes.shape == (2, frames)


def test_all_codes_are_codes_where_the_head_has_other_outputs_too(tmp_path: Any) -> None:
    from voxyard.bark.weights import tiny
    from voxyard.bark.weights.checkpoint import load

    tiny.write(tmp_path, tiny.TinyShape(spare_coarse_outputs=48))
    loaded = load(tmp_path)
    head = loaded.model.coarse_acoustics.lm_head.weight
    assert head.shape[0] == 12_096
    head[12_048:] *= 100  # the wrong ones become the likeliest

    codes = np.array(spoken(loaded, [work_of(1, 30)], temperature=0)[1])
    theirs = transformers_codes(loaded, work_of(1, 30))

    assert codes.min() >= 0
    assert codes.max() < 1024
    assert theirs.max() >= 12_048  # what is known of transformers: if this fails, it was mended
