"""The recorded race: what the page's opening setting gives, told by a file that is checked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.compare.race_file import (
    OPENING,
    RACE_FILE,
    RaceFileError,
    load_race,
    record_race,
    save_race,
)

ROOT = Path(__file__).resolve().parents[2]


def test_the_recording_is_the_opening_setting_and_tells_the_strategies_apart() -> None:
    found = load_race(RACE_FILE)
    assert found.setting == OPENING
    assert found.model["name"] == "smollm2-135m-instruct" and found.machine["cores"] >= 1
    assert found.facts["requests"] == OPENING.count and found.facts["max_len"] == OPENING.max_len
    by_name = {result.strategy: result for result in found.results}
    assert list(by_name) == list(OPENING.contenders)
    new = sum(request.new for request in OPENING.drawn())
    for result in found.results:
        assert result.complete and result.generated == new and not result.stopped
        assert result.same_texts and len(result.first_token) == OPENING.count
        assert result.steps == len(result.timeline) and result.seconds > 0
        assert 0 < result.mean <= result.peak <= OPENING.count
    assert by_name["paged"].peak >= 2 * by_name["reserve max"].peak
    assert by_name["paged"].steps == min(result.steps for result in found.results)
    assert by_name["paged"].copied_bytes < by_name["doubling"].copied_bytes
    # what reserve max can hold at once follows from the budget alone
    assert by_name["reserve max"].peak == found.facts["slots"] // OPENING.max_len


def test_written_and_read_it_is_the_same(tiny: Callable[..., Any], tmp_path: Path) -> None:
    model = tiny("llama")
    setting = replace(
        OPENING, count=5, scale=3, max_len=48, system_tokens=4, block_size=4,
        megabytes=96 * model.geometry.bytes_per_token / 1e6 + 1e-6, contenders=("reserve max", "paged"),
    )  # fmt: skip
    made = record_race(model, setting)
    save_race(made, tmp_path / "race.json")
    found = load_race(tmp_path / "race.json")
    assert (found.setting, found.facts, found.model) == (setting, made.facts, made.model)
    for one, two in zip(made.results, found.results, strict=True):
        for name in ("strategy", "steps", "generated", "peak", "waited", "copied_bytes", "preempted",
                     "stopped", "texts", "same_texts", "complete"):  # fmt: skip
            assert getattr(one, name) == getattr(two, name), name
        assert [n for _, n in one.timeline] == [n for _, n in two.timeline]
        assert two.seconds == pytest.approx(one.seconds, abs=1e-4)
        assert two.mean == pytest.approx(one.mean, rel=0.02)  # ends are kept to a tenth of a millisecond


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_command_makes_it_again(tmp_path: Path) -> None:
    """Everything but the seconds, on whatever machine."""
    from core.cli import main

    assert main(["record", "race", "--trace", str(tmp_path / "again.json")]) == 0
    made, kept = load_race(tmp_path / "again.json"), load_race(RACE_FILE)
    assert (made.facts, made.setting) == (kept.facts, kept.setting)
    for one, two in zip(made.results, kept.results, strict=True):
        for name in ("strategy", "steps", "peak", "waited", "copied_bytes", "preempted", "texts"):
            assert getattr(one, name) == getattr(two, name), name


def test_reading_it_needs_no_torch() -> None:
    """The race page shows it before anybody races; torch takes seconds to import."""
    code = (
        "import sys; from core.compare.race_file import RACE_FILE, load_race; load_race(RACE_FILE);"
        "heavy = {'torch', 'transformers', 'streamlit'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_damaged_file_gives_one_sentence(tmp_path: Path) -> None:
    whole = json.loads(RACE_FILE.read_text(encoding="utf-8"))

    def changed(change: Callable[[dict[str, Any]], Any]) -> str:
        data = json.loads(json.dumps(whole))
        change(data)
        return json.dumps(data)

    cases = {
        "": "it is no JSON",
        json.dumps(whole)[:3000]: "it is no JSON",
        "[" * 100_000: "it is no JSON",
        "[]": "must be an object",
        changed(lambda d: d.update(version=2)): "version is 2",
        changed(lambda d: d.pop("machine")): "machine",
        changed(lambda d: d["results"][1].update(waited=-1)): "results[1].waited is -1",
        changed(lambda d: d["results"][0]["ends"].pop()): "ends of steps",
        changed(lambda d: d["results"][0]["ends"].reverse()): "end before they begin",
        changed(lambda d: d["results"][0].update(ends=[], running=[])): "0 ends of steps",
        changed(lambda d: d["results"].pop()): "other strategies than those of its setting",
        changed(lambda d: d["results"][0]["texts"].update(x="y")): "must be a list",
        changed(lambda d: d["setting"].update(workload="none")): "workload is 'none'",
    }
    for content, words in cases.items():
        (tmp_path / "race.json").write_text(content, encoding="utf-8")
        with pytest.raises(RaceFileError) as caught:
            load_race(tmp_path / "race.json")
        said = str(caught.value)
        assert words in said and "\n" not in said and str(tmp_path) not in said, said
    (tmp_path / "race.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RaceFileError, match=r"race\.json is damaged"):
        load_race(tmp_path / "race.json")
    with pytest.raises(RaceFileError, match="cannot be read: No such file"):
        load_race(tmp_path / "none.json")
