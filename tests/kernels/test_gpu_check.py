"""The GPU check's model loop, on a CPU: the same tokens as transformers' own loop."""

from __future__ import annotations

import torch

from kernels.gpu_model import generate, generate_with_transformers, make_model


def test_the_loop_of_the_check_generates_what_transformers_does() -> None:
    model = make_model("cpu", torch.float32, layers=2)
    prompts = [[5, 6, 7, 8, 9], [1000, 3], list(range(40, 60))]
    plain, seconds = generate(model, prompts, 6, graphs=False)
    padded, _ = generate(model, prompts, 6, graphs=True)
    assert plain == padded and len(seconds) == 5
    for prompt, got in zip(prompts, plain, strict=True):
        assert got == generate_with_transformers(model, prompt, 6)
    assert len({tuple(p) for p in plain}) == 3  # different prompts, different answers: the test can fail
