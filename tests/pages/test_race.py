"""The race page's parts: workloads, the worker thread, what is shown of results."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from core.compare.race import CONTENDERS as REAL
from core.compare.race_file import OPENING
from core.compare.race_result import Progress, RaceResult
from pages.parts import race_run
from pages.parts.race_page import progress_of
from pages.parts.race_results import BARS, table, thinned, verdict
from pages.parts.race_run import CONTENDERS, Choices, Runner, read_upload, requests_of

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel

SMALL = Choices(
    count=4,
    scale=3,
    megabytes=0.2,
    max_len=64,
    system_tokens=4,
    contenders=("reserve max", "doubling", "paged"),
)


@pytest.fixture(autouse=True)
def own_turn(monkeypatch: pytest.MonkeyPatch) -> threading.Lock:
    lock = threading.Lock()
    monkeypatch.setattr(race_run, "turn", lambda: lock)
    return lock


def wait(runner: Runner, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while runner.busy and time.monotonic() < until:
        time.sleep(0.02)
    assert not runner.busy


def budget(model: LoadedModel, slots: int) -> float:
    return slots * model.geometry.bytes_per_token / 1e6


def small(model: LoadedModel, slots: int = 96, **changes: object) -> Choices:
    chosen = Choices(
        count=5,
        scale=3,
        max_len=48,
        system_tokens=4,
        block_size=4,
        contenders=("reserve max", "doubling", "paged"),
    )
    chosen.megabytes = budget(model, slots) + 1e-6
    for name, value in changes.items():
        setattr(chosen, name, value)
    return chosen


def test_the_page_offers_what_can_race() -> None:
    assert set(CONTENDERS) == set(REAL)
    assert set(Choices().contenders) <= set(CONTENDERS) and "paged" in Choices().contenders
    assert requests_of(Choices()) == OPENING.drawn()  # Start runs what is recorded


def test_drawn_requests_are_seeded_and_bounded() -> None:
    assert requests_of(SMALL) == requests_of(SMALL) and len(requests_of(SMALL)) == 4
    other = Choices(count=4, scale=3, seed=1)
    assert requests_of(other) != requests_of(SMALL)
    with pytest.raises(ValueError, match=r"have [\d,]+ tokens together, and a race takes at most 40,000"):
        requests_of(Choices(count=256, scale=100))
    with pytest.raises(ValueError, match="No workload file is open"):
        requests_of(Choices(source="file"))


def test_a_file_is_read_and_its_faults_name_the_line_and_no_folder() -> None:
    lines = b'{"prompt_tokens": 5, "new_tokens": 3}\n\n{"prompt": "a b c", "new_tokens": 2, "arrival": 4}\n'
    found = read_upload("w.jsonl", lines, lambda text: len(text.split()))
    assert [(r.prompt, r.new, r.arrival) for r in found] == [(5, 3, 0.0), (3, 2, 4.0)]
    for content, text in ((b"{", "w.jsonl, line 1 is not JSON"), (b"", "w.jsonl holds no request"),
                          (b"\xff\xfe", "w.jsonl is not a text file"),
                          (b'{"prompt": "x", "new_tokens": 2}', "w.jsonl, line 1")):  # fmt: skip
        with pytest.raises(ValueError, match=text) as caught:
            read_upload("w.jsonl", content, None)
        assert "/" not in str(caught.value).split(":")[0]


def test_a_race_runs_to_its_end_in_a_thread(tiny: Callable[..., LoadedModel]) -> None:
    model, runner = tiny("llama"), Runner()
    chosen = small(model)
    runner.start(model, chosen, requests_of(chosen))
    wait(runner)
    assert (runner.phase, runner.sentence) == ("done", "")
    assert [r.strategy for r in runner.results] == ["reserve max", "doubling", "paged"]
    assert all(r.complete and r.same_texts is not (r.stopped != {}) for r in runner.results)
    assert runner.facts["requests"] == 5 and runner.facts["slots"] == 96
    by_name = {r.strategy: r for r in runner.results}
    assert by_name["paged"].peak > by_name["reserve max"].peak == 2
    assert "at once of" in verdict(runner.results, "en")
    share, text = progress_of(runner, "en")
    assert share == 1.0 and text.startswith("Paged (3 of 3)")


def test_a_race_can_be_stopped_and_keeps_what_it_found(tiny: Callable[..., LoadedModel]) -> None:
    model, runner = tiny("llama"), Runner()
    chosen = small(model, slots=160, count=40, max_len=80)
    runner.start(model, chosen, requests_of(chosen))
    while runner.busy and not (runner.progress and runner.progress.number == 1):
        time.sleep(0.005)
    runner.stop()
    wait(runner)
    assert runner.phase == "stopped"
    assert runner.results[0].complete and len(runner.results) < 3
    runner.start(model, small(model), requests_of(small(model)))
    wait(runner)
    assert runner.phase == "done", "it can be started again"


def test_a_refusal_is_one_sentence(tiny: Callable[..., LoadedModel]) -> None:
    model, runner = tiny("llama"), Runner()
    runner.start(model, small(model, slots=16), requests_of(SMALL))
    wait(runner)
    assert runner.phase == "failed" and "it must lie between the two" in runner.sentence
    assert race_run.turn().acquire(timeout=1), "the next race may start"


def test_a_second_race_waits_for_its_turn(tiny: Callable[..., LoadedModel], own_turn: threading.Lock) -> None:
    model, runner = tiny("llama"), Runner()
    with own_turn:
        runner.start(model, small(model), requests_of(small(model)))
        time.sleep(0.3)
        assert runner.phase == "queued"
        runner.start(model, small(model), [])  # while it waits: nothing
        assert runner.phase == "queued"
    wait(runner)
    assert runner.phase == "done"


def test_a_closed_tab_ends_its_race(tiny: Callable[..., LoadedModel], own_turn: threading.Lock) -> None:
    model, runner = tiny("llama"), Runner()
    with own_turn:
        runner.start(model, small(model), requests_of(small(model)))
        del runner
        gc.collect()
        until = time.monotonic() + 5
        while any(t.name == "race" for t in threading.enumerate()) and time.monotonic() < until:
            time.sleep(0.05)
        assert not any(t.name == "race" for t in threading.enumerate())


def result(name: str, **values: object) -> RaceResult:
    made = RaceResult(strategy=name, complete=True)
    for key, value in values.items():
        setattr(made, key, value)
    return made


def test_the_table_has_a_cell_for_everything() -> None:
    results = [
        result("reserve max", mean=2.0, peak=2, seconds=4.0, generated=40, first_token=[1.0, 3.0], waited=7),
        result("paged", mean=6.0, peak=8, seconds=2.0, generated=40, copied_bytes=1_500_000, same_texts=True),
    ]
    cells = table(results, "en")
    assert cells["strategy"] == ["Reserve max length", "Paged"]
    assert cells["at once, mean"] == ["2.00", "6.00"] and cells["tokens/s"] == ["10.0", "20.0"]
    assert cells["first token, s"] == ["2.00", "0.00"] and cells["copied, MB"] == ["0.0", "1.5"]
    assert cells["texts equal"] == ["–", "yes"] and cells["waits"] == ["7", "0"]
    assert len(table(results, "zh")) == len(cells) == 12
    assert [value(results[0]) for value, _ in BARS.values()] == [2.0, 10.0, 2.0, 7, 0.0]
    assert verdict(results, "en") == (
        "Paged runs 3.0 times the requests at once of Reserve max length, "
        "and 2.0 times its tokens per second."
    )
    assert verdict(results[:1], "en") == ""


def test_a_line_keeps_its_shape_when_thinned() -> None:
    points = [(1.0, 2), (2.0, 2), (3.0, 3), (4.0, 3), (5.0, 1)]
    assert thinned(points) == [(0.0, 2), (2.0, 2), (4.0, 3), (5.0, 1)]
    assert thinned([]) == []


def test_progress_is_a_share_of_all_contenders() -> None:
    runner = Runner(progress=Progress("doubling", 1, 4, 30, 60, 3))
    assert progress_of(runner, "en") == (
        0.375, "Grow by doubling (2 of 4): 30 of 60 tokens, 3 requests at once"
    )  # fmt: skip
    assert progress_of(Runner(), "zh") == (0.0, "")
