"""Every allocation strategy on one workload, for real, under the same KV bytes

The default model and a workload with a common system prompt, ragged questions and ragged answers (like
ShareGPT's, scaled). Contenders take turns, so that other load on the machine hits all alike. Targets: paged
runs at least 2 times the requests at once of reserve max and 1.5 times its tokens a second, and beats every
other strategy in both; sharing beats no sharing; all texts are equal.
"""

from __future__ import annotations

import argparse
import sys

from core.bench import BenchResult
from core.compare.race import CONTENDERS, Progress, Race, RaceResult, race_workload
from core.compare.workload import SHAREGPT
from core.models import DEFAULT_MODEL, load

AT_ONCE, FASTER = 2.0, 1.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Model, workload and budget."""
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--requests", type=int, default=48, metavar="N")
    parser.add_argument("--rate", type=float, default=0.0, help="arrivals a step (0: all at once)")
    parser.add_argument("--slots", type=int, default=1024, metavar="N", help="tokens in the KV budget")
    parser.add_argument("--max-model-len", type=int, default=256, metavar="N")
    parser.add_argument("--block-size", type=int, default=16, metavar="N")
    parser.add_argument("--scale", type=float, default=1 / 9, help="of ShareGPT's lengths (default 1/9)")
    parser.add_argument("--system-tokens", type=int, default=32, metavar="N", help="common to all prompts")
    parser.add_argument("--answers", type=int, default=1, metavar="N", help="sampled answers a request")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), metavar="NAME")


def run(args: argparse.Namespace) -> BenchResult:
    """Race, and hold the results against the targets."""
    model = load(args.model, dtype=args.dtype, device=args.device)
    requests = race_workload(
        model, SHAREGPT.scaled(args.scale), args.requests, rate=args.rate, seed=args.seed, n=args.answers,
        system_tokens=args.system_tokens,
    )  # fmt: skip
    race = Race(
        model, requests, kv_bytes=args.slots * model.geometry.bytes_per_token, block_size=args.block_size,
        max_model_len=args.max_model_len, contenders=args.contenders,
    )  # fmt: skip
    results = {r.strategy: r for r in race.run(_show if sys.stderr.isatty() else None, in_turns=True)}
    print(file=sys.stderr)
    failures = _failures(results)
    prompts = sum(len(r.prompt) for r in requests) / len(requests)
    new = sum(r.new for r in requests) / len(requests)
    megabytes = race.slots * model.geometry.bytes_per_token / 1e6
    return BenchResult(
        name="race",
        title="Every allocation strategy on one workload, for real, under the same KV bytes",
        rows=[_row(result) for result in results.values()],
        columns=tuple(_row(next(iter(results.values())))),
        notes=[
            f"{len(requests)} requests, {prompts:.0f} prompt tokens ({args.system_tokens} common to all) and "
            f"{new:.0f} new ones on average; {race.slots} slots = {megabytes:.1f} MB of keys and values in "
            f"{args.dtype}.",
            "All take the same attention path. A contiguous strategy could read its runs without gathering.",
        ],
        verdict=_verdict(results) + (": " + "; ".join(failures) if failures else ""),
        ok=not failures,
    )


def _row(result: RaceResult) -> dict[str, object]:
    return {
        "strategy": result.strategy,
        "at once, mean": result.mean,
        "peak": result.peak,
        "tokens/s": result.tokens_per_second,
        "s": result.seconds,
        "steps": result.steps,
        "first token, s": result.first_token_mean,
        "waited": result.waited,
        "MB copied": result.copied_bytes / 1e6,
        "gave way": result.preempted,
        "stopped": len(result.stopped),
        "same texts": bool(result.same_texts),
    }


def _failures(results: dict[str, RaceResult]) -> list[str]:
    """What falls short of the targets, of those that the contenders allow to be judged."""
    whole = [r for r in results.values() if not r.stopped]
    found = [f"the texts of {r.strategy} differ" for r in whole if not r.same_texts]
    paged, rest = results.get("paged"), results.get("reserve max")
    if paged is None:
        return found
    if rest is not None and paged.mean < AT_ONCE * rest.mean:
        found.append(f"requests at once below {AT_ONCE:g} times reserve max")
    if rest is not None and paged.tokens_per_second < FASTER * rest.tokens_per_second:
        found.append(f"tokens a second below {FASTER:g} times reserve max")
    for name, other in results.items():
        if name != "paged" and other.mean >= paged.mean:
            found.append(f"{name} runs as many requests at once")
        if name != "paged" and other.tokens_per_second >= paged.tokens_per_second:
            found.append(f"{name} makes as many tokens a second")
    return found


def _verdict(results: dict[str, RaceResult]) -> str:
    paged, rest = results.get("paged"), results.get("reserve max")
    if paged is None or rest is None:
        return f"{len(results)} contenders"
    return (
        f"paged against reserve max: {paged.mean / rest.mean:.1f} times the requests at once (target "
        f"{AT_ONCE:g}), {paged.tokens_per_second / rest.tokens_per_second:.2f} times the tokens a second "
        f"(target {FASTER:g})"
    )


def _show(at: Progress) -> None:
    line = f"\r{at.strategy:<24}{at.tokens:>6} of {at.all_tokens} tokens "
    print(line, end="", file=sys.stderr, flush=True)
