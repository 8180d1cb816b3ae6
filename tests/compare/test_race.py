"""The race on tiny random models: equal texts, real copies, requests at once, stopping in the middle."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from core.compare.workload import SHAREGPT

if TYPE_CHECKING:
    from core.compare.contenders import RaceRequest
    from core.compare.race import Progress, Race
    from core.models.loaded import LoadedModel


LENGTHS = ((5, 9), (1, 14), (12, 3), (3, 20), (9, 1), (2, 17), (7, 8), (4, 12))  # question, answer


def ragged(n: int = 1, temperature: float = 0.0) -> list[RaceRequest]:
    from core.compare.contenders import RaceRequest

    system = tuple(range(3, 11))  # two blocks that all have in common
    return [
        RaceRequest(
            prompt=system + tuple((7 * i + k) % 90 + 3 for k in range(length)), new=new, arrival=i // 3, n=n,
            temperature=temperature, seed=100 * i,
        )
        for i, (length, new) in enumerate(LENGTHS)
    ]  # fmt: skip


def race(model: LoadedModel, requests: list[RaceRequest], slots: int = 96, **change: object) -> Race:
    from core.compare.race import Race

    settings = {"kv_bytes": slots * model.geometry.bytes_per_token, "max_model_len": 48, "block_size": 4}
    settings |= change
    return Race(model, requests, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("arch", ["llama", "mistral"])
def test_all_texts_are_equal_and_paging_runs_most_at_once(
    tiny: Callable[..., LoadedModel], arch: str
) -> None:
    results = {r.strategy: r for r in race(tiny(arch), ragged()).run()}
    assert len(results) == 8
    for result in results.values():
        assert result.complete and result.same_texts, result.strategy
        assert result.generated == sum(r.new for r in ragged()) and not result.stopped
        assert {len(ids) for key, ids in result.texts.items() if key == "r3.0"} == {20}
        assert len(result.first_token) == 8 and min(result.first_token) > 0
    steps = {name: result.steps for name, result in results.items()}
    assert results["reserve max"].peak == 2
    assert results["paged"].peak >= 2 * results["reserve max"].peak
    assert steps["paged"] <= steps["paged without sharing"] <= steps["exact"] < steps["reserve max"]
    for name, copied in (("grow by one", True), ("doubling", True), ("exact", False), ("reserve max", False)):
        assert (results[name].copied_bytes > 0) == copied
    assert results["reserve max"].waited > results["exact"].waited > 0


def test_sampled_answers_are_equal_too(tiny: Callable[..., LoadedModel]) -> None:
    requests = ragged(n=2, temperature=0.9)
    results = race(tiny("llama"), requests, slots=160).run()
    assert all(result.same_texts for result in results)
    assert len(results[0].texts) == 16
    assert results[0].texts["r3.0"] != results[0].texts["r3.1"]


def test_the_copies_matter(tiny: Callable[..., LoadedModel], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the copies that doubling asks for, its sequences read slots of nobody: NaN, and other texts."""
    from core.compare.slots import SlotStore

    monkeypatch.setattr(SlotStore, "copy", lambda self, copies: 0)
    results = race(tiny("llama"), ragged(), contenders=("reserve max", "doubling")).run()
    assert results[0].same_texts and not results[1].same_texts


def test_preempted_requests_compute_again_and_say_the_same(tiny: Callable[..., LoadedModel]) -> None:
    contenders = ("reserve max", "doubling", "grow by one")
    results = race(tiny("llama"), ragged(), slots=64, contenders=contenders).run()
    assert any(result.preempted for result in results[1:])
    for result in results[1:]:
        whole = {key: ids for key, ids in result.texts.items() if key not in result.stopped}
        assert len(whole) >= 5
        assert all(ids == results[0].texts[key] for key, ids in whole.items())


def test_in_turns_gives_the_same(tiny: Callable[..., LoadedModel]) -> None:
    alone = race(tiny("llama"), ragged()).run()
    turns = race(tiny("llama"), ragged()).run(in_turns=True)
    for a, b in zip(alone, turns, strict=True):
        assert (a.strategy, a.steps, a.peak, a.waited, a.copied_bytes, a.texts) == (
            b.strategy, b.steps, b.peak, b.waited, b.copied_bytes, b.texts,
        )  # fmt: skip


def test_stop_and_progress(tiny: Callable[..., LoadedModel]) -> None:
    seen: list[Progress] = []
    running = race(tiny("llama"), ragged(), contenders=("exact", "reserve max"))
    results = running.run(seen.append, stop=lambda: sum(p.number for p in seen) >= 5)
    assert [p.strategy for p in seen if p.number] == ["reserve max"] * 5 and seen[0].strategy == "exact"
    assert seen[0].total == 2 and seen[0].all_tokens == sum(r.new for r in ragged())
    assert [r.complete for r in results] == [True, False] and results[1].same_texts is None
    assert running.results is results


def test_budgets_and_names_are_checked(tiny: Callable[..., LoadedModel]) -> None:
    with pytest.raises(ValueError, match="must lie between"):
        race(tiny("llama"), ragged(), slots=40)
    with pytest.raises(ValueError, match="cannot race"):
        race(tiny("llama"), ragged(), contenders=("no cache",))


def test_the_workload_shares_a_system_prompt(tiny: Callable[..., LoadedModel]) -> None:
    from core.compare.race import race_workload

    model = tiny("llama")
    requests = race_workload(model, SHAREGPT.scaled(1 / 9), 20, rate=0.5, seed=1, system_tokens=8)
    assert len({r.prompt[:8] for r in requests}) == 1
    assert len({len(r.prompt) for r in requests}) > 5
    assert len({r.prompt[8:10] for r in requests}) > 10, "the questions must differ"
    assert [r.arrival for r in requests] == sorted(r.arrival for r in requests)
