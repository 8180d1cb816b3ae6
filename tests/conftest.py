"""Fixtures that several rooms use: tiny random models at once, the packaged ones where a test says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # torch is imported only by the tests that need it
    from core.models.loaded import LoadedModel


@pytest.fixture(scope="session")
def tiny() -> Callable[..., LoadedModel]:
    """``tiny(arch, seed=0, dtype="float32", **config_changes)``: one LoadedModel for the same arguments.

    ``arch``: llama, qwen2, qwen3, gemma3_text and mistral (window 8), gpt2.
    """

    @cache
    def make(arch: str, **changes: Any) -> LoadedModel:
        from tests.tiny import tiny_model

        return tiny_model(arch, **changes)

    return make


@pytest.fixture(scope="session")
def smollm2() -> LoadedModel:
    """The default model in float32 on the CPU; mark the test ``model``."""
    from core.models import load

    return load("smollm2-135m-instruct")


@pytest.fixture(scope="session")
def gemma() -> LoadedModel:
    """The model for Chinese in float32 on the CPU; mark the test ``model``."""
    from core.models import load

    return load("gemma-3-270m", accept_terms=True)
