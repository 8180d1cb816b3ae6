"""The README keeps its promises: every idea has a step, every link opens one, every command exists."""

import re
from pathlib import Path

from core.scenarios import SCENARIOS
from pages.parts.lessons import LESSON_IDS, lesson

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
ROW = r"^\| (\d+) \| .+? \| \[.+?\]\(\S+?/lesson\?lesson=([\w-]+)&step=(\d+)\) \|$"
IDEAS = re.findall(ROW, README, re.M)


def test_every_idea_has_a_lesson_that_says_so() -> None:
    assert [int(idea) for idea, _, _ in IDEAS] == list(range(1, 13))
    for idea, name, step in IDEAS:
        found = lesson(name)
        assert int(idea) in found.ideas, (idea, name)
        assert 1 <= int(step) <= len(found.stops), (name, step)


def test_every_idea_is_covered_and_every_run_recorded() -> None:
    assert {idea for name in LESSON_IDS for idea in lesson(name).ideas} == set(range(1, 13))
    assert SCENARIOS


def test_benchmarks_that_it_names_exist() -> None:
    named = set(re.findall(r"python -m core bench (\w+)", README)) - {"list"}
    assert named and all((ROOT / "core" / "bench" / f"{name}.py").is_file() for name in named)


def test_pictures_and_files_that_it_names_exist() -> None:
    for path in re.findall(r"\]\(((?!http)\S+?)\)", README):
        assert (ROOT / path).is_file(), path
