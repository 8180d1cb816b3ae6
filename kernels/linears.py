"""Linear layers on a CPU: weights packed once for oneDNN. A CPU spends most of a decode step in these layers.

`F.linear` hands a plain row-major weight to the library at each call. Packed once, in the blocked order
that the inner loop wants, the same product reads memory in one stream:

    weight [out, in] row-major   ->   opaque blocked tensor, exact: to_dense() gives the same bits back

Layers that read the same input are packed as one (q, k, v; gate, up): fewer calls, longer streams. The
first of them to be called computes for all, the others take their part. A 16-bit model on a CPU without
16-bit products is packed in fp32: the weights are the same numbers, and each output is rounded once. Every
group is compared with `F.linear` before it is used, every shape is timed once, and what is not faster stays
plain. Memory: the packed copy replaces the plain one, unless the weight is used elsewhere too (an output
layer tied to the embedding). The operators are private to torch: where they are missing or refuse, the
model stays as it was, with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS = (1, 8, 32)  # row counts at which a shape is timed: decode batches
HINT = 32  # rows that oneDNN lays the weight out for; measured best or equal from 1 to 128 rows
TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}  # of the largest output
SAMPLE = 8  # groups of one shape that are timed together
Group = list[tuple[str, nn.Linear]]  # layers that read the same input, with their names


@dataclass(frozen=True, slots=True)
class ShapeTiming:
    """One shape, timed: seconds of plain and packed calls for each count of rows; ``kept``: packed won."""

    inputs: int
    outputs: int
    layers: int
    stored_as: str
    plain: tuple[float, ...]
    packed: tuple[float, ...]
    kept: bool
    rows: tuple[int, ...] = ROWS


@dataclass(frozen=True, slots=True)
class PackReport:
    """What ``pack_linears`` did: layers packed and left plain, bytes of packed weights, why not more."""

    packed: int
    plain: int
    packed_bytes: int
    shapes: tuple[ShapeTiming, ...]
    reason: str | None = None


@dataclass(slots=True)
class Packed:
    """Weights of one or several layers that share their input, as one packed matrix."""

    weight: Tensor
    bias: Tensor | None
    compute: torch.dtype
    sizes: list[int]
    names: list[str] = field(default_factory=list)
    seen: Tensor | None = None
    parts: tuple[Tensor, ...] = ()
    left: int = 0

    def product(self, x: Tensor) -> Tensor:
        """x: [..., in] -> [..., sum(sizes)] in the dtype of x."""
        y = torch.ops.mkldnn._linear_pointwise(x.to(self.compute), self.weight, self.bias, "none", [], "")
        return y.to(x.dtype)

    def part(self, index: int, x: Tensor) -> Tensor:
        """Layer ``index``'s output. Computed for all on the first call with ``x``, dropped after the last."""
        if len(self.sizes) == 1:
            return self.product(x)
        if self.seen is not x:
            self.seen, self.parts = x, self.product(x).split(self.sizes, -1)
            self.left = len(self.sizes)
        result = self.parts[index]
        self.left -= 1
        if not self.left:
            self.seen, self.parts = None, ()
        return result


def groups(model: nn.Module) -> Iterator[Group]:
    """The model's linear layers, those that read the same input together."""
    for name, parent in model.named_modules():
        found = {
            n: m for n, m in parent.named_children() if type(m) is nn.Linear and m.weight.device.type == "cpu"
        }
        for names in TOGETHER:
            if all(n in found for n in names) and len({found[n].in_features for n in names}) == 1:
                yield [(f"{name}.{n}".lstrip("."), found.pop(n)) for n in names]
        for n, layer in found.items():
            yield [(f"{name}.{n}".lstrip("."), layer)]


def _by_shape(model: nn.Module) -> list[list[Group]]:
    """Groups that are not packed yet, those of one shape and dtype together."""
    shapes: dict[tuple, list[Group]] = {}
    for layers in groups(model):
        if not any("packed" in m.__dict__ for _, m in layers):
            outputs = tuple((m.out_features, m.bias is None) for _, m in layers)
            shapes.setdefault((layers[0][1].in_features, layers[0][1].weight.dtype, outputs), []).append(
                layers
            )
    return list(shapes.values())


def _storages(model: nn.Module) -> tuple[torch.dtype, ...]:
    """The dtypes to try for the packed weights, best guess first."""
    dtype = next((layers[0][1].weight.dtype for layers in groups(model)), torch.float32)
    return (torch.float32,) if dtype == torch.float32 else (dtype, torch.float32)


def make_packed(layers: Group, stored: torch.dtype) -> Packed:
    """Pack a group's weights. RuntimeError or AttributeError where this torch or this CPU cannot."""
    weight = torch.cat([m.weight.detach() for _, m in layers]).to(stored)
    biases = [m.bias for _, m in layers]
    bias = None
    if any(b is not None for b in biases):
        rows = [torch.zeros(m.out_features) if m.bias is None else m.bias.detach() for _, m in layers]
        bias = torch.cat([r.to(stored) for r in rows])
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, HINT)
    sizes = [m.out_features for _, m in layers]
    return Packed(packed, bias, stored, sizes, [name for name, _ in layers])


def _agrees(packed: Packed, layers: Group, rows: int) -> bool:
    first = layers[0][1]
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, first.in_features, generator=generator).to(first.weight.dtype)
    plain = torch.cat([F.linear(x, m.weight, m.bias) for _, m in layers], -1).float()
    error = (packed.product(x).float() - plain).abs().max()
    limit = TOLERANCE.get(first.weight.dtype, 1e-6) * plain.abs().max().clamp(min=1e-3)
    return bool(error <= limit)


def _fastest(
    call: Callable[[], object], other: Callable[[], object], budget: float = 0.06
) -> tuple[float, float]:
    """The best of several runs of each, taken in turns so that a noisy moment hits both."""
    best = [float("inf"), float("inf")]
    call(), other()
    end, runs = time.perf_counter() + budget, 0
    while runs < 3 or (runs < 40 and time.perf_counter() < end):
        runs += 1
        for i, f in enumerate((call, other)):
            start = time.perf_counter()
            f()
            best[i] = min(best[i], time.perf_counter() - start)
    return best[0], best[1]


def time_shape(packed: list[Packed], sample: list[Group]) -> ShapeTiming:
    """Time groups of one shape, plain against packed: several, so that weights come from memory as in use.

    Kept where packed is faster over the decode batches together. Seconds are for one group.
    """
    first = sample[0][0][1]
    plain_s, packed_s = [], []
    for rows in ROWS:
        x = torch.randn(rows, first.in_features).to(first.weight.dtype)
        plain, fast = _fastest(
            lambda x=x: [F.linear(x, m.weight, m.bias) for layers in sample for _, m in layers],
            lambda x=x: [p.product(x) for p in packed],
        )
        plain_s.append(plain / len(sample))
        packed_s.append(fast / len(sample))
    ratio = sum(p / q for p, q in zip(plain_s, packed_s, strict=True)) / len(ROWS)
    stored, outputs = str(packed[0].compute).removeprefix("torch."), sum(packed[0].sizes)
    return ShapeTiming(
        first.in_features, outputs, len(sample[0]), stored, tuple(plain_s), tuple(packed_s), ratio > 1.0
    )


def _choose(sample: list[Group], storages: tuple[torch.dtype, ...]) -> ShapeTiming | str:
    """The fastest way to store groups of this shape, or why there is none."""
    reason, best = "", None
    for stored in storages:
        try:
            packed = [make_packed(layers, stored) for layers in sample]
            if not all(_agrees(packed[0], sample[0], rows) for rows in ROWS):
                reason = f"packed {stored} layers do not agree with plain ones"
                continue
        except (RuntimeError, AttributeError, NotImplementedError) as error:
            reason = str(error).splitlines()[0]
            continue
        timing = time_shape(packed, sample)
        if best is None or sum(timing.packed) < sum(best.packed):
            best = timing
    return reason if best is None else best


def _install(packed: Packed, layers: Group, shared: set[int], keep_dense: bool) -> None:
    for i, (_, layer) in enumerate(layers):
        layer.packed = (packed, i)
        layer.forward = lambda x, packed=packed, i=i: packed.part(
            i, x
        )  # an instance attribute: undone by `del`
        if not keep_dense and layer.weight.data_ptr() not in shared:
            # The shape and dtype stay readable; the bits live on in the packed copy.
            layer.weight = nn.Parameter(torch.empty_like(layer.weight, device="meta"), requires_grad=False)


def pack_linears(model: nn.Module, *, keep_dense: bool = False) -> PackReport:
    """Let the model's `nn.Linear` layers on the CPU run on packed weights, where that is right and faster.

    Other layers (GPT-2's Conv1D, embeddings) are left alone. ``keep_dense`` keeps the plain weights too. Hold
    the model's lock. Packing a model twice packs what is still plain.
    """
    shared = {
        p.data_ptr() for m in model.modules() if type(m) is not nn.Linear for p in m.parameters(recurse=False)
    }
    storages, chosen, reasons = _storages(model), [], []
    packed_layers = plain_layers = size = 0
    with torch.inference_mode():
        for alike in _by_shape(model):
            choice = _choose(alike[:SAMPLE], storages)
            if isinstance(choice, str) or not choice.kept:
                reasons.append(
                    choice if isinstance(choice, str) else "plain layers are faster for some shapes"
                )
                plain_layers += sum(map(len, alike))
            if isinstance(choice, str):
                continue
            chosen.append(choice)
            for layers in alike if choice.kept else ():
                packed = make_packed(layers, getattr(torch, choice.stored_as))
                if not _agrees(packed, layers, 5):
                    reasons.append(f"{layers[0][0]}: packed and plain do not agree")
                    plain_layers += len(layers)
                    continue
                _install(packed, layers, shared, keep_dense)
                packed_layers += len(layers)
                size += packed.compute.itemsize * layers[0][1].in_features * sum(packed.sizes)
    return PackReport(
        packed_layers, plain_layers, size, tuple(chosen), "; ".join(dict.fromkeys(reasons)) or None
    )


def unpack(model: nn.Module) -> int:
    """Undo ``pack_linears``: plain layers with the bits they had. Returns how many were packed."""
    count = 0
    dense: dict[int, Tensor] = {}
    for layer in model.modules():
        if "packed" not in layer.__dict__:
            continue
        packed, index = layer.__dict__.pop("packed")
        del layer.forward
        if layer.weight.is_meta:
            whole = dense.setdefault(id(packed), packed.weight.to_dense())
            part = whole.split(packed.sizes)[index].to(layer.weight.dtype).clone()
            layer.weight = nn.Parameter(part, requires_grad=False)
        count += 1
    return count
