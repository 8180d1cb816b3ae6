"""The GPU check's model loop, on a CPU: the same tokens as transformers' own loop."""

from __future__ import annotations

import torch

from kernels.gpu_model import generate, generate_with_transformers, make_model
from kernels.gpu_timing import DecodeTime, verdicts


def test_the_loop_of_the_check_generates_what_transformers_does() -> None:
    model = make_model("cpu", torch.float32, layers=2)
    prompts = [[5, 6, 7, 8, 9], [1000, 3], list(range(40, 60))]
    plain, seconds = generate(model, prompts, 6, graphs=False)
    padded, _ = generate(model, prompts, 6, graphs=True)
    assert plain == padded and len(seconds) == 5
    for prompt, got in zip(prompts, plain, strict=True):
        assert got == generate_with_transformers(model, prompt, 6)
    assert len({tuple(p) for p in plain}) == 3  # different prompts, different answers: the test can fail


def test_the_verdicts_name_the_worst_shape() -> None:
    """Aims: 85 % of the copy at long contexts, no slower than SDPA, 5 times generate at batch 1."""

    def time(batch: int, context: int, gigabytes: float, sdpa: float) -> DecodeTime:
        paged = 2 * batch * context * 8 * 128 * 2 / gigabytes / 1e3
        return DecodeTime(batch, context, 3, paged, paged * sdpa, gigabytes)

    times = [time(64, 32768, 3900, 1.2), time(8, 32768, 3600, 1.0), time(1, 512, 10, 0.1)]
    found = verdicts(4000.0, times, {"ours": 600.0, "generate": 100.0})
    assert [ok for ok, _ in found] == [True, True, True]
    assert "reached, 90% (worst: batch 8, context 32768" in found[0][1]
    slow = verdicts(5000.0, [time(8, 32768, 3600, 0.9)], {"ours": 400.0, "generate": 100.0})
    assert [ok for ok, _ in slow] == [False, False, False]
    assert "MISSED, 1.11 times its time" in slow[1][1]
    assert [ok for ok, _ in verdicts(4000.0, times[2:], {})] == [False, False]


def test_transformers_does_not_take_this_package_for_its_own() -> None:
    """Its optional library of kernels has the same name; it has a version in its metadata, ours has none."""
    from transformers.utils import is_kernels_available

    assert not is_kernels_available()


def test_the_engines_rows_on_a_cpu() -> None:
    """The same module, two layers, both paths: the tokens agree and the rows are there."""
    from core.bench.engine_speed import rows

    found = rows("cpu", "float32", (3,), 5, layers=2)
    assert [(row["batch"], row["dtype"], row["graphs"]) for row in found] == [
        (3, "float32", False),
        (3, "float32", True),
    ]
