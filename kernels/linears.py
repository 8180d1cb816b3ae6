"""Linear layers on a CPU: weights packed once for oneDNN. A CPU spends most of a decode step in these layers.

`F.linear` hands a plain row-major weight to the library at each call. Packed once, in the blocked order
that the inner loop wants, the same product reads memory in one stream:

    weight [out, in] row-major   ->   opaque blocked tensor, exact: to_dense() gives the same bits back

Layers that read the same input are packed as one (q, k, v; gate, up): fewer calls, longer streams. The
first of them to be called computes for all, the others take their part. A 16-bit model on a CPU without
16-bit products is packed in fp32: the weights are the same numbers, and each output is rounded once.

Steps of a single row read plain weights where that is faster: 16-bit ones, half as long as their fp32 copy,
and small ones, where the call costs more than the memory. Up to 1 GiB of weights are kept for it.

What is packed depends on the types, on what the processor offers and on the comparison of every group with
`F.linear` on fixed inputs, never on a clock: two processes compute the same bits. A packed product gives a
row the same bits whatever other rows are computed with it, which a plain one does not. In one chain it rounds
about twice as much as a plain one; in short chains (``chain``, see chains.py) less than a plain one.
Memory: the packed copy replaces the plain one, unless the weight is used elsewhere too (an output layer
tied to the embedding) or a single row is faster on it. The operators are private to torch: where they are
missing or refuse, the model stays as it was, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernels.chains import HINT, Chains

ROWS = (1, 5)  # row counts at which packed and plain are compared
TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}  # of the largest output
KEPT = 1 << 30  # bytes of plain weights up to which they are kept beside the packed ones, for single rows
SMALL = 3 << 19  # numbers of a weight; below, a plain product of a single row is no slower than a packed one
Group = list[tuple[str, nn.Linear]]  # layers that read the same input, with their names


@dataclass(frozen=True, slots=True)
class PackReport:
    """What ``pack_linears`` did: layers packed and left plain, bytes of packed weights, why not more."""

    packed: int
    plain: int
    packed_bytes: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """A weight [out, in] in oneDNN's blocked order: every output is one chain of sums."""

    weight: Tensor
    bias: Tensor | None

    @classmethod
    def pack(cls, weight: Tensor, bias: Tensor | None) -> Whole:
        """RuntimeError or AttributeError where this torch or processor cannot."""
        return cls(torch.ops.mkldnn._reorder_linear_weight(weight, HINT), bias)

    def product(self, x: Tensor) -> Tensor:
        """x: [rows, in] -> [rows, out]."""
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")

    def dense(self) -> Tensor:
        """The weight [out, in], bit by bit."""
        return self.weight.to_dense()


@dataclass(slots=True)
class Packed:
    """Weights of one or several layers that share their input, as one packed matrix."""

    matrix: Whole | Chains
    compute: torch.dtype
    sizes: list[int]
    names: list[str] = field(default_factory=list)
    plain: tuple[Tensor, Tensor | None] | None = None  # weight, bias: where a single row is faster on them
    seen: Tensor | None = None
    parts: tuple[Tensor, ...] = ()
    left: int = 0

    def product(self, x: Tensor) -> Tensor:
        """x: [..., in] -> [..., sum(sizes)] in the dtype of x."""
        if self.plain is not None and x.numel() == x.shape[-1]:
            return F.linear(x, *self.plain)
        y = self.matrix.product(x.reshape(-1, x.shape[-1]).to(self.compute))
        return y.view(*x.shape[:-1], y.shape[-1]).to(x.dtype)

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


def storage(dtype: torch.dtype) -> torch.dtype:
    """The type of the packed weights: the model's own where the processor multiplies it, else fp32."""
    supported = {
        torch.bfloat16: "_is_mkldnn_bf16_supported",
        torch.float16: "_is_mkldnn_fp16_supported",
    }
    if dtype in supported and getattr(torch.ops.mkldnn, supported[dtype])():
        return dtype
    return torch.float32


def _stacked(layers: Group) -> tuple[Tensor, Tensor | None]:
    """The group's plain weights as one [sum(out), in], and its biases; a single layer's are its own."""
    if len(layers) == 1:
        return layers[0][1].weight.detach(), layers[0][1].bias
    bias = None
    if any(m.bias is not None for _, m in layers):
        bias = torch.cat(
            [m.weight.new_zeros(m.out_features) if m.bias is None else m.bias for _, m in layers]
        )
    return torch.cat([m.weight.detach() for _, m in layers]), bias


def make_packed(layers: Group, stored: torch.dtype, chain: int | None = None) -> Packed:
    """Pack a group's weights. RuntimeError or AttributeError where this torch or this CPU cannot.

    ``chain``: at most about so many products are added up in one chain.
    """
    weight, bias = _stacked(layers)
    weight, bias = weight.to(stored), None if bias is None else bias.detach().to(stored)
    matrix = Chains.pack(weight, bias, chain) if chain else Whole.pack(weight, bias)
    return Packed(matrix, stored, [m.out_features for _, m in layers], [name for name, _ in layers])


def _agrees(packed: Packed, layers: Group, rows: int) -> bool:
    first = layers[0][1]
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, first.in_features, generator=generator).to(first.weight.dtype)
    plain = torch.cat([F.linear(x, m.weight, m.bias) for _, m in layers], -1).float()
    error = (packed.product(x).float() - plain).abs().max()
    limit = TOLERANCE[first.weight.dtype] * plain.abs().max().clamp(min=1e-3)
    return bool(error <= limit)


def _try(layers: Group, chain: int | None) -> Packed | str:
    """The group, packed and held against plain; or why it stays plain."""
    dtype = layers[0][1].weight.dtype
    if dtype not in TOLERANCE:
        return f"{dtype} layers are not packed"
    try:
        packed = make_packed(layers, storage(dtype), chain)
        if all(_agrees(packed, layers, rows) for rows in ROWS):
            return packed
    except (RuntimeError, AttributeError, NotImplementedError) as error:
        return str(error).splitlines()[0]
    return f"{layers[0][0]}: packed and plain layers do not agree"


def _install(packed: Packed, layers: Group, shared: set[int], keep_dense: bool, one_row: bool) -> None:
    """``one_row``: a single row goes to the plain weights, which are kept; several layers' as one."""
    if one_row:
        packed.plain = _stacked(layers)
        parts = packed.plain[0].split(packed.sizes)
    for i, (_, layer) in enumerate(layers):
        layer.packed = (packed, i)
        layer.forward = partial(packed.part, i)  # an instance attribute: undone by `del`
        if one_row and len(layers) > 1:
            layer.weight = nn.Parameter(parts[i], requires_grad=False)  # the same bits, not held twice
        elif not (keep_dense or one_row) and layer.weight.data_ptr() not in shared:
            # The shape and dtype stay readable; the bits live on in the packed copy.
            layer.weight = nn.Parameter(torch.empty_like(layer.weight, device="meta"), requires_grad=False)


def pack_linears(model: nn.Module, *, keep_dense: bool = False, chain: int | None = None) -> PackReport:
    """Let the model's `nn.Linear` layers on the CPU run on packed weights, where that is right.

    Other layers (GPT-2's Conv1D, embeddings) are left alone. ``keep_dense`` keeps the plain weights too;
    ``chain`` is the most products that an output adds up in one chain. Hold the model's lock. Packing a
    model twice packs what is still plain.
    """
    shared = {
        p.data_ptr() for m in model.modules() if type(m) is not nn.Linear for p in m.parameters(recurse=False)
    }
    reasons: dict[str, None] = {}  # in order, each once
    todo = [layers for layers in groups(model) if not any("packed" in m.__dict__ for _, m in layers)]
    keep = sum(_bytes(layers) for layers in todo if _plain_row(layers)) <= KEPT
    packed_layers = plain_layers = size = 0
    with torch.inference_mode():
        for layers in todo:
            packed = _try(layers, chain)
            if isinstance(packed, str):
                reasons[packed] = None
                plain_layers += len(layers)
                continue
            _install(packed, layers, shared, keep_dense, keep and _plain_row(layers))
            packed_layers += len(layers)
            size += packed.compute.itemsize * layers[0][1].in_features * sum(packed.sizes)
    return PackReport(packed_layers, plain_layers, size, "; ".join(reasons) or None)


def _bytes(layers: Group) -> int:
    return sum(m.weight.nbytes for _, m in layers)


def _plain_row(layers: Group) -> bool:
    """Whether a single row is faster on the plain weights."""
    widened = storage(layers[0][1].weight.dtype) != layers[0][1].weight.dtype
    return widened or sum(m.weight.numel() for _, m in layers) < SMALL


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
            if id(packed) not in dense:
                dense[id(packed)] = packed.matrix.dense()
            part = dense[id(packed)].split(packed.sizes)[index].to(layer.weight.dtype).clone()
            layer.weight = nn.Parameter(part, requires_grad=False)
        count += 1
    return count
