"""The rules that pyproject.toml states: lint, types, the direction of imports. Run as a reader would."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "."], ["mypy"], ["lint-imports", "--no-cache"]],
    ids=lambda command: command[0],
)
def test_rules(command: list[str]) -> None:
    tool = shutil.which(command[0], path=str(Path(sys.executable).parent)) or shutil.which(command[0])
    assert tool, f"{command[0]} is not installed: pip install -r requirements-dev.txt"
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_light_imports() -> None:
    """A recorded lesson must be on the screen before torch has been imported."""
    code = (
        "import sys, core.config, core.memory.events, core.trace.step, core.engine.plan, core.scenarios;"
        "import core.models, core.compare.lockstep;"
        "heavy = {'torch', 'transformers', 'streamlit', 'plotly'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
