"""Linear layers on a CPU: weights packed once for oneDNN. A CPU spends most of a decode step in these layers.

`F.linear` hands a plain row-major weight to the library at each call. Packed once, in the blocked order
that the inner loop wants, the same product reads memory in one stream:

    weight [out, in] row-major   ->   opaque blocked tensor, exact: to_dense() gives the same bits back

Layers that read the same input are packed as one (q, k, v; gate, up): fewer calls, longer streams. The
first of them to be called computes for all, the others take their part. A 16-bit model on a CPU without
16-bit products is packed in fp32: the weights are the same numbers, and each output is rounded once.

In one chain a packed product rounds about twice as much as a plain one. With ``chain`` the sums are cut into
short chains and round no more than plain ones: by oneDNN (chains.py), and for a single row and for narrow
layers, which are faster so, as a batched product (stretches.py).

A single row, a decode step of one sequence, may be worth a second copy of the weight: its stretches, or the
plain 16-bit weight, half as long as its packed fp32 copy. Up to 512 MiB are kept for it.

What is packed depends on the types, on what the processor offers and on the comparison of every group with
`F.linear` on fixed inputs, never on a clock: two processes compute the same bits.
Memory: a packed copy replaces the plain one, unless the weight is used elsewhere too (an output layer
tied to the embedding) or single rows read it. oneDNN's operators are private to torch: where they are
missing or refuse, the layers stay as they were, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernels.chains import HINT, Chains
from kernels.stretches import Stretches

# Row counts at which packed and plain are compared. Chains ask oneDNN once about each multiple of 4, which
# takes a moment: those of a lesson are asked about here, at load.
ROWS = (1, 5, 12, 16)
TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}  # of the largest output
KEPT = 1 << 29  # bytes up to which second copies of weights are kept for single rows
NARROW = 1024  # outputs up to which stretches are as fast as chains at any number of rows
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


@dataclass(frozen=True, slots=True)
class Plain:
    """The weight [out, in] as the model has it."""

    weight: Tensor
    bias: Tensor | None

    def product(self, x: Tensor) -> Tensor:
        """x: [rows, in] -> [rows, out]."""
        return F.linear(x, self.weight, self.bias)


@dataclass(slots=True)
class Packed:
    """Weights of one or several layers that share their input, as one packed matrix."""

    matrix: Whole | Chains | Stretches
    compute: torch.dtype
    sizes: list[int]
    single: Plain | Stretches | None = None  # a second copy, on which a single row is faster
    seen: Tensor | None = None
    parts: tuple[Tensor, ...] = ()
    left: int = 0

    def product(self, x: Tensor) -> Tensor:
        """x: [..., in] -> [..., sum(sizes)] in the dtype of x."""
        rows = x.reshape(-1, x.shape[-1])
        if self.single is not None and rows.shape[0] == 1:
            y = self.single.product(rows)
        else:
            y = self.matrix.product(rows.to(self.compute)).to(x.dtype)
        return y.view(*x.shape[:-1], y.shape[-1])

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


def make_packed(layers: Group, stored: torch.dtype, chain: int | None = None, room: int = 0) -> Packed:
    """Pack a group's weights. RuntimeError or AttributeError where this torch or this CPU cannot.

    ``chain``: at most about so many products are added up in one chain; ``room``: bytes that a second copy
    for single rows may take.
    """
    own, own_bias = _stacked(layers)
    weight, bias = own.to(stored), None if own_bias is None else own_bias.detach().to(stored)
    matrix: Whole | Chains | Stretches
    single: Plain | Stretches | None = None
    if chain is None:
        matrix = Whole.pack(weight, bias)
        if stored != own.dtype and own.nbytes <= room:
            single = Plain(own, own_bias)
    elif own.shape[0] <= NARROW:
        matrix = Stretches.pack(weight, bias, chain // 2)  # half as long takes no longer and rounds less
    else:
        matrix = Chains.pack(weight, bias, chain)
        if weight.nbytes <= room:
            single = Stretches.pack(weight, bias, chain // 2)
    return Packed(matrix, stored, [m.out_features for _, m in layers], single)


def _agrees(packed: Packed, layers: Group, rows: int) -> bool:
    first = layers[0][1]
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, first.in_features, generator=generator).to(first.weight.dtype)
    plain = torch.cat([F.linear(x, m.weight, m.bias) for _, m in layers], -1).float()
    error = (packed.product(x).float() - plain).abs().max()
    limit = TOLERANCE[first.weight.dtype] * plain.abs().max().clamp(min=1e-3)
    return bool(error <= limit)


def _try(layers: Group, chain: int | None, room: int) -> Packed | str:
    """The group, packed and held against plain; or why it stays plain."""
    dtype = layers[0][1].weight.dtype
    if dtype not in TOLERANCE:
        return f"{dtype} layers are not packed"
    try:
        packed = make_packed(layers, storage(dtype), chain, room)
        if all(_agrees(packed, layers, rows) for rows in ROWS):
            return packed
    except (RuntimeError, AttributeError, NotImplementedError) as error:
        return str(error).splitlines()[0]
    return f"{layers[0][0]}: packed and plain layers do not agree"


def _install(packed: Packed, layers: Group, shared: set[int], keep_dense: bool) -> None:
    plain = packed.single.weight if isinstance(packed.single, Plain) else None
    for i, (_, layer) in enumerate(layers):
        layer.packed = (packed, i)
        layer.forward = partial(packed.part, i)  # an instance attribute: undone by `del`
        if plain is not None and len(layers) > 1:
            part = plain.split(packed.sizes)[i]
            layer.weight = nn.Parameter(part, requires_grad=False)  # the same bits, not held twice
        elif plain is None and not keep_dense and layer.weight.data_ptr() not in shared:
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
    packed_layers = plain_layers = size = kept = 0
    with torch.inference_mode():
        for layers in todo:
            packed = _try(layers, chain, KEPT - kept)
            if isinstance(packed, str):
                reasons[packed] = None
                plain_layers += len(layers)
                continue
            _install(packed, layers, shared, keep_dense)
            packed_layers += len(layers)
            size += packed.compute.itemsize * layers[0][1].in_features * sum(packed.sizes)
            kept += 0 if packed.single is None else packed.single.weight.nbytes
    return PackReport(packed_layers, plain_layers, size, "; ".join(reasons) or None)


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
