"""Check and time the kernels on a GPU, in under five minutes: ``python -m kernels.gpu_check``.

Needs torch with CUDA, Triton and transformers; weights are random, nothing is fetched. Writes RESULTS.md:
card, versions and date, then what was right, then what was fast. It stops at the first wrong number: times of
a wrong kernel are worth nothing. ``--correctness`` stops before timing; ``--small`` runs few and tiny cases,
for compute-sanitizer, which the script starts by itself where it is installed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import torch

from kernels import PagedBatch, copy_blocks, paged_attention, store_kv
from kernels.gpu_timing import DecodeTime, verdicts
from kernels.reference import paged_attention_reference
from kernels.warm import compilations, warm_up

RESULTS = Path(__file__).with_name("RESULTS.md")
LIMITS = {torch.float32: 1e-5, torch.bfloat16: 2e-2}  # relative to the largest output, against float64
BUDGET_S = 270.0


def check_case(seed: int, dtype: torch.dtype, longest: int) -> float:
    """One random mixed batch, stored and attended on the card. Returns the relative error."""
    rng = random.Random(seed)
    block_size, dim = rng.choice([1, 2, 3, 4, 12, 16, 48]), rng.choice([64, 80, 96, 120, 128, 256])
    kv_heads, group = rng.choice([1, 2, 3]), rng.choice([1, 3, 7, 8])
    lens = [rng.choice([0, 1, 15, 16, 17, rng.randint(1, longest)]) for _ in range(rng.randint(1, 6))]
    q_lens = [rng.choice([1, 1, max(1, n // 2), max(1, n)]) for n in lens]
    need = [-(-n // block_size) for n in lens]
    order = rng.sample(range(sum(need) + 2), sum(need) + 2)
    tables = [[order.pop() for _ in range(n)] for n in need]
    slots = [
        t[p // block_size] * block_size + p % block_size
        for t, n in zip(tables, lens, strict=True)
        for p in range(n)
    ]
    store = torch.full(
        (sum(need) + 2, 2, 2, block_size, kv_heads, dim), float("nan"), dtype=dtype, device="cuda"
    )
    k, v = torch.randn(2, kv_heads, len(slots), dim, dtype=dtype, device="cuda").transpose(1, 2).unbind(0)
    store_kv(k, v, store[:, 1, 0], store[:, 1, 1], torch.tensor(slots, dtype=torch.int64, device="cuda"))
    written = int((~store.isnan()).any(-1).any(-1).sum())
    if written != 2 * len(slots):
        raise SystemExit(f"store wrote {written} rows instead of {2 * len(slots)} (seed {seed}, {dtype}).")
    batch = PagedBatch.build([-1] * sum(q_lens), tables, q_lens, lens, block_size, "cuda")
    batch.splits = rng.choice([None, 1, 2, 8])
    q = torch.randn(sum(q_lens), kv_heads * group, dim, dtype=dtype, device="cuda")
    options = {
        "scale": dim**-0.5,
        "window": rng.choice([None, 1, 4, 30]),
        "softcap": rng.choice([None, None, 20.0]),
        "sinks": torch.randn(kv_heads * group, dtype=dtype, device="cuda") if rng.random() < 0.3 else None,
    }
    got = paged_attention(q, store[:, 1, 0], store[:, 1, 1], batch, **options)
    expected = paged_attention_reference(q, store[:, 1, 0], store[:, 1, 1], batch, **options)
    if not bool(torch.isfinite(got).all()):
        raise SystemExit(f"attention gave a number that is not finite (seed {seed}, {dtype}).")
    return float((got.double() - expected).abs().max() / expected.abs().max().clamp(min=1e-9))


def check_copies(seed: int) -> None:
    """Chains, cycles and fan-outs on the card. Raises where a block is wrong."""
    rng = random.Random(seed)
    blocks = rng.randint(1, 40)
    pairs = [(rng.randrange(blocks), t) for t in rng.sample(range(blocks), rng.randint(1, blocks))]
    store = torch.randn(blocks, 3, 2, 5, 3, 64, dtype=torch.bfloat16, device="cuda")
    expected = store.clone()
    expected[[t for _, t in pairs]] = store[[s for s, _ in pairs]]
    copy_blocks(store, pairs)
    if not torch.equal(store, expected):
        raise SystemExit(f"block copies went wrong (seed {seed}, {pairs}).")


def correctness(cases: int, longest: int) -> list[str]:
    """Random batches in both dtypes. Returns lines for the report."""
    lines = []
    for dtype, limit in LIMITS.items():
        worst = 0.0
        for seed in range(cases):
            error = check_case(seed, dtype, longest)
            if error > limit:
                raise SystemExit(f"relative error {error:.2e} exceeds {limit:.0e} (seed {seed}, {dtype}).")
            worst = max(worst, error)
        lines.append(
            f"* {cases} random batches in {dtype}: worst relative error {worst:.1e} (limit {limit:.0e})"
        )
    for seed in range(cases):
        check_copies(seed)
    lines.append(f"* {cases} random sets of block copies: exact")
    store = torch.zeros(4, 2, 2, 16, 3, 64, dtype=torch.bfloat16, device="cuda")
    warm_up(store, 9)
    before = compilations()
    for n in (1, 5, 33, 100):  # other lengths, counts and block sizes: nothing new to compile
        tables = [list(range(-(-n // 4)))] * 3
        pool = torch.zeros(32, 2, 2, 4, 3, 64, dtype=torch.bfloat16, device="cuda")
        batch = PagedBatch.build([-1] * 3, tables, [1] * 3, [n] * 3, 4, "cuda")
        q = torch.zeros(3, 9, 64, dtype=torch.bfloat16, device="cuda")
        paged_attention(q, pool[:, 0, 0], pool[:, 0, 1], batch, scale=1.0)
    if compilations() != before:
        raise SystemExit(f"{compilations() - before} kernels were compiled after the warm-up.")
    lines.append("* nothing compiled after the warm-up, at other lengths, batches and block sizes")
    return lines


def sanitizer() -> str:
    """Run the small cases under compute-sanitizer, if it is there. Its verdict as a line."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return "* compute-sanitizer: not installed, not run"
    command = [tool, "--error-exitcode", "9", sys.executable, "-m", "kernels.gpu_check", "--small"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    except subprocess.TimeoutExpired:
        return "* compute-sanitizer: stopped after 100 s, no verdict"
    if done.returncode == 9:
        raise SystemExit(f"compute-sanitizer found errors:\n{done.stdout[-3000:]}")
    if done.returncode:
        return (
            f"* compute-sanitizer: did not run here ({done.stdout.strip().splitlines()[-1:] or 'no output'})"
        )
    return "* compute-sanitizer (memcheck), small cases: no errors"


def models(began: float) -> tuple[list[str], list[str], dict[str, float]]:
    """Tokens on every path, then tokens a second. Returns two lists of lines, and the rates at batch 1."""
    from kernels.gpu_model import generate, generate_with_transformers, make_model

    model = make_model("cuda", torch.float32, layers=8)
    prompts = [[5, 6, 7, 8, 9], [1000, 3], list(range(40, 100))]
    plain, _ = generate(model, prompts, 24, graphs=False)
    graph, _ = generate(model, prompts, 24, graphs=True)
    on_cpu, _ = generate(model.cpu(), prompts, 24, graphs=False)
    if plain != graph:
        raise SystemExit("tokens with and without CUDA graphs differ.")
    if plain != on_cpu:
        raise SystemExit("tokens of the Triton kernels and of the torch path on the CPU differ.")
    right = ["* fp32, 3 prompts, 24 tokens each: the same from Triton, CUDA graphs and torch on the CPU"]
    del model
    model, fast, rates = make_model("cuda", torch.bfloat16), [], {}
    for count in (1, 8, 64):
        batch = [list(range(10 + i, 42 + i)) for i in range(count)]
        for graphs in (False, True):
            _, seconds = generate(model, batch, 65, graphs)
            rate = count / sorted(seconds)[len(seconds) // 2]
            fast.append(f"| {count} | ours, {'CUDA graphs' if graphs else 'no graphs'} | {rate:,.0f} |")
            if count == 1 and graphs:
                rates["ours"] = rate
        if perf_counter() - began > BUDGET_S:
            return right, fast, rates
    for new in (8, 64):  # the first run is a warm-up
        start = perf_counter()
        generate_with_transformers(model, list(range(10, 42)), new)
        torch.cuda.synchronize()
        took = perf_counter() - start
    rates["generate"] = 64 / took
    fast.append(f"| 1 | transformers generate, DynamicCache | {rates['generate']:,.0f} |")
    fast.append(_continuous(model))
    fast += engine_speed()
    return right, fast, rates


def engine_speed() -> list[str]:
    """The classroom engine's own tokens a second, in a process of its own: kernels know nothing of core."""
    command = [sys.executable, "-m", "core", "bench", "engine_speed", "--device", "cuda", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    except subprocess.TimeoutExpired:
        return ["| | classroom engine | stopped after 90 s |"]
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return [f"| | classroom engine | did not run: {said[-1] if said else 'no output'} |"]
    path = {True: "CUDA graphs", False: "no graphs"}
    return [
        f"| {row['batch']} | classroom engine, {row['dtype']}, {path[row['graphs']]} "
        f"| {row['tokens a second']:,.0f} |"
        for row in json.loads(done.stdout)["rows"]
    ]


def _continuous(model: object) -> str:
    """transformers' continuous batching on 8 prompts, if this version has it."""
    from transformers import GenerationConfig

    config = GenerationConfig(max_new_tokens=64, do_sample=False, eos_token_id=-1, pad_token_id=0)
    try:
        model.set_attn_implementation("paged|sdpa")
        start = perf_counter()
        model.generate_batch([list(range(10 + i, 42 + i)) for i in range(8)], generation_config=config)
        torch.cuda.synchronize()
        rate = 8 * 64 / (perf_counter() - start)
        return f"| 8 | transformers continuous batching, start included | {rate:,.0f} |"
    except Exception as error:  # another library's moving target: its failure is a line of the report
        return f"| 8 | transformers continuous batching | did not run: {type(error).__name__} |"


def timings(began: float) -> tuple[list[str], float, list[DecodeTime]]:
    """The table of decode bandwidth, until the time is used up; the copy's GB/s, and the times."""
    from kernels.gpu_timing import copy_bandwidth, decode_time

    copy, times = copy_bandwidth(), []
    lines = [
        f"Device copy, read and written: {copy:,.0f} GB/s.", "",
        "| batch | context | heads a KV head | paged us | SDPA us | GB/s of K and V | of the copy |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for context in (32768, 4096, 512):
        for batch in (1, 8, 64, 256):
            for group in (8, 3, 1):
                if perf_counter() - began > BUDGET_S:
                    return [*lines, "", "The time was used up before the remaining shapes."], copy, times
                t = decode_time(batch, context, group)
                if t is None:
                    lines.append(f"| {batch} | {context} | {group} | too large | | | |")
                    continue
                times.append(t)
                lines.append(
                    f"| {batch} | {context} | {group} | {t.paged_us:.1f} | {t.sdpa_us:.1f} "
                    f"| {t.gigabytes:,.0f} | {t.gigabytes / copy:.0%} |"
                )
    return lines, copy, times


def main() -> None:
    """Run everything and write the report."""
    parser = argparse.ArgumentParser(description="Check and time the kernels on a GPU.")
    parser.add_argument("--small", action="store_true", help="few and tiny cases, nothing timed or written")
    parser.add_argument("--correctness", action="store_true", help="stop before timing, write nothing")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device here; run this where there is one.")
    began = perf_counter()
    if args.small:
        print("\n".join(correctness(3, 40)))
        return
    right = correctness(40, 600)
    print("\n".join(right), flush=True)
    if args.correctness:
        return
    right.append(sanitizer())
    more, fast, rates = models(began)
    right += more
    print("\n".join([*right[-2:], *fast]), flush=True)
    bandwidth, copy, times = timings(began)
    aims = verdicts(copy, times, rates)
    lines = report(right, fast, bandwidth, [line for _, line in aims])
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(line for _, line in aims))
    print(f"{RESULTS} written after {perf_counter() - began:.0f} s.")
    if not all(reached for reached, _ in aims):
        raise SystemExit(1)


def report(right: list[str], fast: list[str], bandwidth: list[str], aims: list[str]) -> list[str]:
    """The lines of RESULTS.md."""
    import transformers
    import triton

    card = torch.cuda.get_device_properties(0)
    return [
        "# What the kernels did on a GPU", "",
        f"{card.name}, {card.multi_processor_count} multiprocessors, {card.total_memory / 2**30:.0f} GiB; "
        f"torch {torch.__version__}, Triton {triton.__version__}, transformers {transformers.__version__}; "
        f"{datetime.date.today().isoformat()}. Written by `python -m kernels.gpu_check`.", "",
        "## Aims", "", *aims, "",
        "## Right", "", *right, "",
        "## Fast: decode attention", "", "bf16, 8 KV heads, width 128, blocks of 16 in random order.", "",
        *bandwidth, "",
        "## Fast: a whole small model", "",
        "A Llama of SmolLM2-135M's shape, random weights, bf16, prompts of 32 tokens; tokens a second.", "",
        "| batch | path | tokens/s |", "|---|---|---|", *fast,
    ]  # fmt: skip


if __name__ == "__main__":
    main()
