"""The semantic stage: what the loop chooses is what a plain forward pass would choose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from voxyard.bark.model import semantic
from voxyard.bark.model.decode import Decoder, Rows, TokenSampling
from voxyard.bark.model.gpt import causal_gpt
from voxyard.bark.model.noise import key
from voxyard.bark.model.semantic import SemanticOptions, SemanticOutcome, SemanticWork
from voxyard.bark.weights.checkpoint import BarkCheckpoint

TEXTS = ("Hello world.", "The old sailor opens the heavy door, and", "42", "Is it you? It was!", "on at the")
GREEDY = SemanticOptions(temperature=0, end_share=None, limit=40)


def work_of(checkpoint: BarkCheckpoint, number: int, voice: Any = None, *, seed: int = 7) -> SemanticWork:
    text = checkpoint.tokenizer.encode(TEXTS[number % len(TEXTS)], add_special_tokens=False).ids
    return SemanticWork(
        number, text, None if voice is None else voice.semantic_prompt, key(seed, number, 0, "semantic")
    )


def spoken(checkpoint: BarkCheckpoint, work: list[SemanticWork], rows: int, options: Any) -> dict[int, SemanticOutcome]:
    gpt = causal_gpt(checkpoint.model.semantic)
    outcomes: list[SemanticOutcome] = []
    semantic.speak(Decoder(gpt, gpt.cache(rows)), checkpoint.layout.semantic, work, options, outcomes.append)
    assert len(outcomes) == len(work)
    return {each.number: each for each in outcomes}


def prompt_ids(checkpoint: BarkCheckpoint, work: SemanticWork) -> tuple[Any, Any]:
    """Ids and mask as transformers' processor makes them."""
    fill = 256 - len(work.text)
    return F.pad(torch.tensor([work.text]), (0, fill)), F.pad(torch.ones(1, len(work.text)).long(), (0, fill))


@pytest.mark.parametrize("voiced", [False, True])
def test_greedy_tokens_equal_a_full_forward_without_cache(endless: BarkCheckpoint, history: Any, voiced: bool) -> None:
    layout, model = endless.layout.semantic, endless.model.semantic
    work = work_of(endless, 1, history.random(300, 100) if voiced else None)
    gpt = causal_gpt(model)
    embedded = torch.cat(
        [
            semantic.merged_prompt(gpt, layout, work.text, work.history),
            model.input_embeds_layer(torch.tensor([layout.infer])),
        ]
    )[None]
    expected = []
    for _ in range(40):
        logits = model(inputs_embeds=embedded, use_cache=False).logits[0, -1, : layout.end + 1]
        expected.append(int(logits.argmax()))
        embedded = torch.cat([embedded, model.input_embeds_layer(torch.tensor([[expected[-1]]]))], 1)

    found = spoken(endless, [work], 1, replace(GREEDY, check_every=7))[1]

    assert len(set(expected)) > 10
    assert list(found.tokens) == expected
    assert found.cap_reached


@pytest.mark.parametrize("voiced", [False, True])
def test_greedy_tokens_equal_those_of_transformers(endless: BarkCheckpoint, history: Any, voiced: bool) -> None:
    voice = history.random(300, 100) if voiced else None
    work = work_of(endless, 1, voice)
    ids, mask = prompt_ids(endless, work)
    generation = stage_settings(endless, max_new_tokens=40)

    theirs = endless.model.semantic.generate(
        ids,
        semantic_generation_config=generation,
        history_prompt=voice.for_transformers() if voice else None,
        attention_mask=mask,
    )
    ours = spoken(endless, [work], 1, GREEDY)[1]

    assert list(ours.tokens) == [token for token in theirs[0].tolist() if token != endless.layout.semantic.end]


def stage_settings(checkpoint: BarkCheckpoint, **changes: Any) -> Any:
    from transformers.models.bark.generation_configuration_bark import BarkSemanticGenerationConfig

    settings = {**checkpoint.model.generation_config.semantic_config, "do_sample": False, "temperature": 1.0, **changes}
    return BarkSemanticGenerationConfig(**settings)


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_a_chunk_does_not_depend_on_its_batch_mates(checkpoint: BarkCheckpoint, history: Any, rows: int) -> None:
    work = [work_of(checkpoint, n, history.random(50 * n, 100) if n % 2 else None) for n in range(7)]
    options = SemanticOptions()
    alone = {n: spoken(checkpoint, [work[n]], rows, options)[n] for n in range(7)}

    for order in (work, work[::-1], work[3:] + work[:3]):
        assert spoken(checkpoint, order, rows, options) == alone


def test_how_often_the_loop_looks_for_ends_changes_nothing(checkpoint: BarkCheckpoint) -> None:
    work = [work_of(checkpoint, number) for number in range(5)]

    often, seldom = (spoken(checkpoint, work, 2, SemanticOptions(check_every=each)) for each in (1, 50))

    assert often == seldom


def test_another_seed_says_something_else(checkpoint: BarkCheckpoint) -> None:
    one, other = (spoken(checkpoint, [work_of(checkpoint, 0, seed=seed)], 1, SemanticOptions())[0] for seed in (1, 2))

    assert one.tokens != other.tokens


def test_random_weights_end_before_the_cap(checkpoint: BarkCheckpoint) -> None:
    found = spoken(checkpoint, [work_of(checkpoint, number) for number in range(4)], 4, SemanticOptions())

    assert all(10 < len(each.tokens) < 500 and not each.cap_reached for each in found.values())


def test_a_chunk_that_never_ends_stops_at_the_last_position(checkpoint: BarkCheckpoint) -> None:
    model, layout = checkpoint.model.semantic, checkpoint.layout.semantic
    gpt = causal_gpt(model)
    head = gpt.head.clone()
    head[layout.end] = 0
    decoder = Decoder(replace(gpt, head=head), gpt.cache(2))
    outcomes: list[SemanticOutcome] = []

    semantic.speak(
        decoder, layout, [work_of(checkpoint, 0)], SemanticOptions(temperature=0, end_share=None), outcomes.append
    )

    assert len(outcomes[0].tokens) == layout.max_new
    assert outcomes[0].cap_reached


def test_the_end_is_taken_once_it_is_likely_enough(checkpoint: BarkCheckpoint) -> None:
    work = [work_of(checkpoint, number) for number in range(4)]

    patient, hasty = (spoken(checkpoint, work, 4, SemanticOptions(end_share=share)) for share in (None, 1e-3))

    assert sum(len(each.tokens) for each in hasty.values()) < sum(len(each.tokens) for each in patient.values())


def test_numbers_that_are_none_stay_with_their_chunk(checkpoint: BarkCheckpoint) -> None:
    gpt, layout = causal_gpt(checkpoint.model.semantic), checkpoint.layout.semantic
    poisoned = gpt.tokens.clone()
    work = [work_of(checkpoint, number) for number in range(5)]
    poisoned[work[2].text[0] + layout.text_offset] = float("nan")
    broken = {each.number for each in work if work[2].text[0] in each.text}
    clean = spoken(checkpoint, work, 2, SemanticOptions())
    outcomes: list[SemanticOutcome] = []

    semantic.speak(
        Decoder(replace(gpt, tokens=poisoned), gpt.cache(2)), layout, work, SemanticOptions(), outcomes.append
    )

    assert broken == {2}
    assert [each.number for each in outcomes].index(2) < 3  # others come after it in its row
    for each in outcomes:
        assert each.finite == (each.number not in broken)
        assert each.number in broken or each == clean[each.number]


def test_rows_wait_at_the_end_of_the_block(checkpoint: BarkCheckpoint) -> None:
    gpt = causal_gpt(checkpoint.model.semantic)
    rows = Rows([1], [gpt.block - 2], [0], [(0, 0)])

    Decoder(gpt, gpt.cache(1)).run(rows, [TokenSampling(0, 10, 0.0)] * 5)

    assert rows.positions == [gpt.block - 1]
