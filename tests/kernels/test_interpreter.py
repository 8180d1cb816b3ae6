"""Run the kernels' tests under Triton's interpreter, which must be switched on before it is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
FOLDER = Path(__file__).parent / "interpreted"
ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(FOLDER), *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.mark.timeout(600)
def test_kernels_under_the_interpreter() -> None:
    run("-m", "not slow")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_kernels_under_the_interpreter_at_length() -> None:
    run("-m", "slow")
