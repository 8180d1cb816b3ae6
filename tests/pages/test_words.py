"""Words: both languages complete, every place filled, every key that the picture asks for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from string import Formatter

import pytest

from pages.parts import words
from pages.parts.words import area, t, vocabulary

ASSETS = words.FOLDER.parent
SCRIPTS = [*sorted((ASSETS / "stage").glob("*.js")), ASSETS / "stage.js"]


def forms(entry: words.Entry) -> list[str]:
    return list(entry.values()) if isinstance(entry, dict) else [entry]


def places(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_both_languages_have_the_same_keys() -> None:
    assert vocabulary("zh").keys() == vocabulary("en").keys()


@pytest.mark.parametrize("lang", words.LANGUAGES)
def test_no_entry_is_empty_and_plurals_have_both_forms(lang: str) -> None:
    for key, entry in vocabulary(lang).items():
        assert all(text.strip() for text in forms(entry)), key
        if isinstance(entry, dict):
            assert set(entry) == {"one", "other"}, key


def test_chinese_asks_for_no_number_that_english_lacks() -> None:
    """Chinese may leave a number out (no plural), it may not need one that the caller does not pass."""
    for key, entry in vocabulary("zh").items():
        english = set().union(*(places(text) for text in forms(vocabulary("en")[key])))
        for text in forms(entry):
            assert places(text) <= english | {"n"}, key


def test_chinese_is_chinese() -> None:
    """An entry of more than one word without a single Chinese character would be left over English."""
    numbers_only = re.compile(r"^[^A-Za-z]*$")
    for key, entry in vocabulary("zh").items():
        for text in forms(entry):
            bare = re.sub(r"\{\w*\}", "", text)
            if len(bare.split()) > 2 and not numbers_only.match(bare):
                assert re.search(r"[\u4e00-\u9fff]", bare), (key, text)


def test_one_and_many() -> None:
    assert t("stage.tokens", "en", n=1) == "1 token"
    assert t("stage.tokens", "en", n=0) == "0 tokens"
    assert t("stage.tokens", "en", n=7) == "7 tokens"
    assert t("stage.tokens", "zh", n=1) == "1 个 token"


def test_what_is_missing_is_said() -> None:
    with pytest.raises(ValueError, match=r"no 'stage\.nonsense'"):
        t("stage.nonsense", "en")
    with pytest.raises(ValueError, match="need the number 'n'"):
        t("stage.written", "en")
    with pytest.raises(ValueError, match="'fr' is not known"):
        t("stage.step", "fr")


def test_a_key_defined_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "en.json").write_text('{"a": "x"}')
    (tmp_path / "other.en.json").write_text('{"a": "y"}')
    monkeypatch.setattr(words, "FOLDER", tmp_path)
    vocabulary.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"other\.en\.json defines 'a' a second time"):
            vocabulary("en")
    finally:
        vocabulary.cache_clear()


def test_areas_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "en.json").write_text('{"stage.a": "x"}')
    (tmp_path / "more.en.json").write_text('{"stage.b": {"one": "1", "other": "2"}, "c": "z"}')
    (tmp_path / "broken.json").write_text("not read: it names no language")
    monkeypatch.setattr(words, "FOLDER", tmp_path)
    vocabulary.cache_clear()
    try:
        assert area("stage", "en") == {"a": "x", "b": {"one": "1", "other": "2"}}
        assert len(vocabulary("en")) == 3
    finally:
        vocabulary.cache_clear()


def test_every_word_that_the_script_asks_for_is_there() -> None:
    there = area("stage", "en").keys()
    asked = set()
    for path in SCRIPTS:
        asked |= set(re.findall(r'\bW\("([^"]+)"', path.read_text(encoding="utf-8")))
    assert len(asked) > 40
    assert asked <= there, asked - there
    for family in ("kind", "state", "physical", "table", "seg"):  # asked for as W(`family.${…}`)
        assert any(key.startswith(f"{family}.") for key in there)


def test_no_word_of_the_stage_is_idle() -> None:
    """A word that neither the script nor the pages' code mentions should be deleted."""
    code = "".join(path.read_text(encoding="utf-8") for path in SCRIPTS)
    python = "".join(path.read_text(encoding="utf-8") for path in Path(words.__file__).parent.glob("*.py"))
    built = ("kind.", "state.", "physical.", "table.", "seg.", "why.", "recorded", "live")
    for key in area("stage", "en"):
        if not key.startswith(built):
            assert f'"{key}"' in code or f'"stage.{key}"' in python, key


def test_no_data_ever_becomes_markup() -> None:
    """Prompts come from strangers: the script sets text, never HTML."""
    for path in SCRIPTS:
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", source), (
            path.name
        )


def test_word_files_are_sorted_by_area_and_readable() -> None:
    for path in sorted(words.FOLDER.glob("*.json")):
        text = path.read_text(encoding="utf-8")
        assert "\\u4" not in text, f"{path.name}: Chinese is written as itself"
        assert isinstance(json.loads(text), dict)
