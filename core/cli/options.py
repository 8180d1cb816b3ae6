"""The options of ``run`` and what becomes of them: requests, an EngineConfig, a loaded model."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.cli.errors import CommandError, UsageError
from core.cli.requests import Wanted, check_options, make_wanted, read_requests
from core.config import EngineConfig
from core.models.registry import DEFAULT_MODEL

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel

_UNITS = {
    "": 1,
    "B": 1,
    "K": 1 << 10,
    "KIB": 1 << 10,
    "M": 1 << 20,
    "MIB": 1 << 20,
    "G": 1 << 30,
    "GIB": 1 << 30,
}
_UNITS |= {"KB": 10**3, "MB": 10**6, "GB": 10**9}
SHORTEST_MAX_LEN = 64  # tokens that the max model length leaves room for, where the user names none


def parse_bytes(text: str) -> int:
    """ "64MiB", "1.5 GB" or a plain number as bytes. Raises argparse's error with what is allowed."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    if not found or found[2].upper() not in _UNITS or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write one such as 64MiB, 1GB or 67108864")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def parse_order(text: str) -> tuple[int, ...]:
    """ "1,3,2" as block ids."""
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no list of block ids; write one such as 1,3,2"
        ) from None


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Which model, where it runs, in which numbers."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model", default=DEFAULT_MODEL, metavar="NAME", help="packaged name, folder or hub id"
    )
    group.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (cpu)")
    group.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    group.add_argument("--accept-terms", action="store_true", help="agree to the model's terms of use")


def add_request_options(parser: argparse.ArgumentParser) -> None:
    """What is asked of the model."""
    group = parser.add_argument_group("requests")
    group.add_argument("prompt", nargs="?", metavar="PROMPT", help="a prompt")
    group.add_argument(
        "--prompt", action="append", default=[], dest="prompts", metavar="P", help="a further one"
    )
    group.add_argument("--requests", type=Path, metavar="FILE.jsonl", help="one JSON object a line")
    group.add_argument("--max-tokens", type=int, default=16, metavar="N", help="new tokens a request (16)")
    group.add_argument("--chat", action="store_true", help="put prompts into the model's chat template")
    group.add_argument("--ignore-eos", action="store_true", help="go on after the model's end token")
    group.add_argument(
        "--temperature", type=float, help="0: always the likeliest token (0; 1 with --n above 1)"
    )
    group.add_argument("--top-k", type=int, default=0, metavar="K", help="draw from the K likeliest (0: all)")
    group.add_argument(
        "--top-p", type=float, default=1.0, metavar="P", help="draw from this much probability"
    )
    group.add_argument("--seed", type=int, default=0, help="of sampling and of the free list (0)")
    group.add_argument("--n", type=int, default=1, help="answers to each prompt (1)")
    group.add_argument("--beam", type=int, metavar="WIDTH", help="beam search of this width")
    group.add_argument("--length-penalty", type=float, default=1.0, metavar="X", help="of beam search (1.0)")
    group.add_argument(
        "--early-stopping", choices=("true", "false", "never"), default="false", help="of beam search (false)"
    )


def add_memory_options(parser: argparse.ArgumentParser) -> None:
    """The KV memory and its rules."""
    group = parser.add_argument_group("memory")
    default = EngineConfig()
    pool = group.add_mutually_exclusive_group()
    group.add_argument(
        "--block-size", type=int, default=default.block_size, metavar="B", help="tokens a block (4)"
    )
    pool.add_argument("--blocks", type=int, metavar="N", help=f"blocks in the pool ({default.num_blocks})")
    pool.add_argument(
        "--pool-bytes", type=parse_bytes, metavar="SIZE", help="the pool in bytes, such as 64MiB"
    )
    group.add_argument(
        "--max-model-len", type=int, metavar="N", help="most tokens of a sequence (what is needed)"
    )
    group.add_argument("--sharing", default=default.sharing, choices=("copy-on-write", "append-only", "none"))
    group.add_argument("--prefix-cache", action="store_true", help="find full blocks again by their content")
    group.add_argument("--preempt", default=default.preempt, choices=("recompute", "swap", "none"))
    group.add_argument(
        "--host-blocks",
        type=int,
        metavar="N",
        help="to swap out to (with swap: as many as --blocks)",
    )
    group.add_argument("--max-batch-tokens", type=int, default=default.max_batch_tokens, metavar="N")
    group.add_argument(
        "--watermark", type=float, default=0.0, metavar="SHARE", help="of the pool, kept free (0)"
    )
    group.add_argument(
        "--free-order", type=parse_order, metavar="1,3,2", help="the first free blocks, in order"
    )


def wanted(args: argparse.Namespace) -> list[Wanted]:
    """The requests that the options ask for. Raises UsageError when there is none, or one is wrong."""
    values: dict[str, Any] = {
        "max_new_tokens": args.max_tokens, "chat": args.chat, "seed": args.seed, "top_k": args.top_k,
        "top_p": args.top_p, "n": args.n, "length_penalty": args.length_penalty,
        "early_stopping": {"true": True, "false": False}.get(args.early_stopping, args.early_stopping),
        "ignore_eos": args.ignore_eos,
    }  # fmt: skip
    if args.temperature is not None:
        values["temperature"] = args.temperature
    if args.beam is not None:
        values["beam"] = args.beam
    check_options(values)
    prompts = ([args.prompt] if args.prompt is not None else []) + args.prompts
    requests = [make_wanted({**values, "prompt": prompt}, "") for prompt in prompts]
    if args.requests is not None:
        requests += read_requests(args.requests, values)
    if not requests:
        raise UsageError("there is nothing to run; give a PROMPT, --prompt or --requests.")
    return requests


def make_config(args: argparse.Namespace, model: LoadedModel | None, longest: int) -> EngineConfig:
    """The EngineConfig that the options ask for; without a model only to see whether they are valid.

    ``longest``: tokens that the longest request writes, which the max model length leaves room for unless the
    user names one. Raises UsageError with the sentence.
    """
    blocks = args.blocks
    if args.pool_bytes is not None and model is not None:
        block_bytes = model.geometry.bytes_per_token * max(args.block_size, 1)
        blocks = args.pool_bytes // block_bytes
        if not blocks:
            raise UsageError(f"{args.pool_bytes} bytes hold no block; one takes {block_bytes} bytes.")
    most = model.geometry.max_positions if model else 1 << 20
    length = args.max_model_len
    if length is None:
        length = min(most, max(SHORTEST_MAX_LEN, longest))
    blocks = EngineConfig().num_blocks if blocks is None else blocks
    host_blocks = args.host_blocks
    if host_blocks is None:
        host_blocks = blocks if args.preempt == "swap" else 0
    try:
        return EngineConfig(
            block_size=args.block_size,
            num_blocks=blocks,
            max_model_len=length,
            sharing=args.sharing,
            prefix_cache=args.prefix_cache,
            preempt=args.preempt,
            host_blocks=host_blocks,
            watermark=args.watermark,
            max_batch_tokens=args.max_batch_tokens,
            free_order=args.free_order,
            seed=args.seed,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def load_model(
    name: str, *, dtype: str = "float32", device: str = "cpu", accept_terms: bool = False
) -> LoadedModel:
    """The model, with a line of progress on a terminal. Raises CommandError with one sentence."""
    from core.models import load
    from core.models.commands import progress_bar

    try:
        return load(name, dtype=dtype, device=device, progress=progress_bar(), accept_terms=accept_terms)
    except ValueError as error:
        raise CommandError(str(error)) from error
