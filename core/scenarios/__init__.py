"""The crafted lessons: each a few requests, a pool, and what to look at. Importing this imports no torch.

A recording of each comes with the app (``python -m core record NAME`` makes it again, with the same
figures). Where the model's tokens are not those of the drawing in the course text, ``note`` says so: real
tokenizers cut as they cut, and Gemma's texts begin with a token <bos> of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from core.scenarios.answers import ANSWERS
from core.scenarios.course import COURSE
from core.scenarios.pressure import PRESSURE
from core.scenarios.scenario import LESSONS, Moment, Scenario, recorded_path
from core.scenarios.sharing import SHARING

__all__ = ["LESSONS", "SCENARIOS", "Moment", "Scenario", "recorded_path"]

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {scenario.name: scenario for scenario in (*ANSWERS, *SHARING, *PRESSURE, *COURSE)}
)
