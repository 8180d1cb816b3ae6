"""Beam search against transformers' own, on the same logits: same hypotheses, same scores."""

from __future__ import annotations

from typing import Any

import pytest

from core.engine.beams import BeamOptions, BeamSearch, Child
from core.engine.plan import Candidate

Stop = frozenset[int]


def ours(model: Any, prompt: list[int], width: int, new: int, stop: Stop, options: BeamOptions) -> Any:
    """Beam search with a dense, cache-free forward pass: (tokens, score), best first."""
    import torch

    search = BeamSearch(width, new, stop, options, [Child("", -1, 0.0, sequence="s0")])
    texts, names = {"s0": list(prompt)}, 1
    while search.beams:
        rows = [beam.sequence for beam in search.beams]
        with torch.inference_mode():
            logits = model(torch.tensor([texts[s] for s in rows]), use_cache=False).logits[:, -1].float()
        values, tokens = torch.log_softmax(logits, -1).topk(min(search.num_candidates, logits.shape[-1]))
        best = (zip(*row, strict=True) for row in zip(tokens.tolist(), values.tolist(), strict=True))
        found = {s: tuple(Candidate(*pair) for pair in pairs) for s, pairs in zip(rows, best, strict=True)}
        step = search.advance(found)
        for child in (*step.ended, *step.alive):
            child.sequence, names = f"s{names}", names + 1
            texts[child.sequence] = [*texts[child.parent], child.token_id]
    return [(texts[r.sequence], r.score) for r in search.results]


def theirs(model: Any, prompt: list[int], width: int, new: int, stop: Stop, options: BeamOptions) -> Any:
    import torch

    done = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        num_beams=width,
        num_return_sequences=width,
        max_new_tokens=new,
        do_sample=False,
        eos_token_id=sorted(stop) or None,
        pad_token_id=258,
        length_penalty=options.length_penalty,
        early_stopping=options.early_stopping,
        output_scores=True,
        return_dict_in_generate=True,
        use_cache=True,
    )
    texts = [[t for t in row if t != 258] for row in done.sequences.tolist()]
    return list(zip(texts, done.sequences_scores.tolist(), strict=True))


@pytest.mark.parametrize("early", [True, False, "never"])
@pytest.mark.parametrize("penalty", [0.0, 1.0, -1.0, 2.0])
@pytest.mark.parametrize("width", [2, 3, 4, 8])
def test_same_hypotheses_and_scores(tiny: Any, width: int, penalty: float, early: Any) -> None:
    """A21. Stop tokens are common ones, so that hypotheses end at all lengths."""
    model = tiny("llama", vocab_size=259, seed=width).model
    model.set_attn_implementation("eager")  # other tests may have left it to an engine
    options = BeamOptions(length_penalty=penalty, early_stopping=early)
    for number, stop in enumerate(map(frozenset, ((), range(8, 16), (3,), range(60)))):
        prompt = [(7 * i * i + 13 * number + width) % 250 for i in range(3 + 2 * number)]
        new = (1, 2, 7, 12)[(number + width) % 4]
        mine = ours(model, prompt, width, new, stop, options)
        reference = theirs(model, prompt, width, new, stop, options)
        assert [text for text, _ in mine] == [text for text, _ in reference], (number, new)
        assert [score for _, score in mine] == pytest.approx([score for _, score in reference], abs=1e-4)


def test_stop_among_the_best_two_at_once(tiny: Any) -> None:
    """A21: the stop token is the best first token; the search goes on with the others and keeps its width."""
    import torch

    model = tiny("llama").model
    model.set_attn_implementation("eager")  # other tests may have left it to an engine
    prompt = [10, 20, 30]
    with torch.inference_mode():
        best = int(model(torch.tensor([prompt])).logits[0, -1].argmax())
    for early in (True, False, "never"):
        options = BeamOptions(early_stopping=early)  # type: ignore[arg-type]
        mine = ours(model, prompt, 2, 6, frozenset({best}), options)
        reference = theirs(model, prompt, 2, 6, frozenset({best}), options)
        assert [t for t, _ in mine] == [t for t, _ in reference]
        assert [s for _, s in mine] == pytest.approx([s for _, s in reference], abs=1e-4)
