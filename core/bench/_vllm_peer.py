"""vLLM behind a pipe. Run as a file by the Python of vLLM's own environment; imports nothing of this project.

One line of JSON in, one line of JSON out, until the input ends:

    (start)                                                              {"ready": vLLM's version}
    {"do": "load", "model", "dtype", "max_model_len", "kv_bytes"}        {"loaded": threads}
    {"do": "generate", "prompts": [[id, …], …], "new": n}                {"tokens": [[id, …], …]}

and, for whatever goes wrong, {"error": what}. Greedy, past the end token, every prompt computed anew.
"""

from __future__ import annotations

import glob
import importlib.util
import json
import os
import sys
from typing import Any, TextIO

# Only where the caller has not said otherwise. With its engine in a process of its own, vLLM keeps a core
# free of threads and spins on it for a second after each request, in the turn of whoever comes next.
SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "KMP_BLOCKTIME": "5",  # ms that Intel's OpenMP threads spin when their work is done; vLLM's own choice
}
OPENMP = ("libiomp", "libomp", "libgomp")


def openmp() -> str | None:
    """The OpenMP library to load before all else: Intel's, which vLLM's package requires, or torch's.

    Without it calls of one kind took anything from once to ten times as long on a busy machine, presumably
    because two OpenMP libraries are loaded. vLLM sees to it only for an engine in a process of its own.
    """
    places = [os.path.join(sys.prefix, "lib", "libiomp5.so")]
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin:
        root = os.path.dirname(torch.origin)
        places += [os.path.join(root, "lib", "libgomp*"), os.path.join(f"{root}.libs", "libgomp*")]
    return next((path for place in places for path in glob.glob(place)), None)


def preload() -> None:
    """Begin again with that library loaded first. Returns where there is nothing to change."""
    before = os.environ.get("LD_PRELOAD", "")
    library = None if any(name in before for name in OPENMP) else openmp()
    if sys.platform == "linux" and library:
        os.environ["LD_PRELOAD"] = f"{before}:{library}".lstrip(":")
        os.execv(sys.executable, [sys.executable, *sys.argv])


def take_pipe() -> tuple[TextIO, TextIO]:
    """The caller's pipe, moved out of reach: what anyone prints from here on goes to standard error."""
    lines, replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return lines, replies


def load(message: dict[str, Any]) -> Any:
    """The model, with a pool of just the bytes that the caller allows."""
    from vllm import LLM

    return LLM(
        model=message["model"],
        dtype=message["dtype"],
        max_model_len=message["max_model_len"],
        kv_cache_memory_bytes=message["kv_bytes"],
        enable_prefix_caching=False,
        generation_config="vllm",
    )


def generate(llm: Any, message: dict[str, Any]) -> list[list[int]]:
    """The new tokens of each prompt, in the order of the prompts."""
    from vllm import SamplingParams

    prompts = [{"prompt_token_ids": ids} for ids in message["prompts"]]
    sampling = SamplingParams(temperature=0.0, max_tokens=message["new"], ignore_eos=True, detokenize=False)
    return [list(out.outputs[0].token_ids) for out in llm.generate(prompts, sampling, use_tqdm=False)]


def answers(lines: TextIO) -> Any:
    """The reply to each line."""
    import vllm
    from torch import get_num_threads

    yield {"ready": vllm.__version__}
    llm = None
    for line in lines:
        message = json.loads(line)
        if message["do"] == "load":
            llm = load(message)
            yield {"loaded": get_num_threads()}
        else:
            yield {"tokens": generate(llm, message)}


def main() -> int:
    """Answer until the input ends, or something goes wrong."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if place != here]  # what lies beside it is not for vLLM
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    preload()
    lines, replies = take_pipe()
    try:
        for answer in answers(lines):
            print(json.dumps(answer), file=replies, flush=True)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=replies, flush=True)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
