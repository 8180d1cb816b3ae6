"""A packed product in several short chains: more exact than one long chain, in the same single call.

oneDNN adds the products of an output up one after the other, and what an fp32 sum rounds away grows with the
length of that chain. A grouped 1 x 1 convolution cuts the chain: each group sees a stretch of the inputs and
gives a partial sum for every output; the few partial sums are then added.

    x [rows, in]  =  | stretch 0 | stretch 1 | ... |        a row is a pixel, a stretch is a group's channels
    y [rows, out] =     sum 0    +   sum 1   + ...

Measured (fp32, 576 inputs, outputs near 1, root mean square error): one chain 4.1e-7, F.linear 2.4e-7, four
chains of 144: 2.1e-7. A row gets the same bits whatever other rows are computed with it.

oneDNN lays the weight out for a number of rows, and another number may want another layout: the weight would
be laid out anew at each call, a hundred times slower. So rows are added (``fitting``) until the layout is the
one that was packed; layouts are compared, nothing is timed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

HINT = 32  # rows that oneDNN lays a weight out for; measured best or equal from 1 to 128 rows
AT_ONCE = 256  # rows computed in one call: bounds the partial sums, and more gains nothing
UNIT = 4  # row counts that oneDNN lays out alike are multiples of it on all processors seen
SEARCH = 16  # multiples tried before the rows are left as they are: slower, still right
OPTIONS: tuple[Any, ...] = ([0, 0], [1, 1], [1, 1])  # padding, stride, dilation of a 1 x 1 convolution


@dataclass(frozen=True, slots=True)
class Chains:
    """A weight [out, in] as a grouped convolution."""

    weight: Tensor  # opaque, of [groups * out, stretch, 1, 1]
    bias: Tensor | None  # [groups * out]: the layer's in the first group, 0 in the others
    inputs: int
    outputs: int
    groups: int
    stretch: int  # inputs a chain; the last one is filled up with zeros
    layout: bytes  # how the weight lies, in oneDNN's own description

    @classmethod
    def pack(cls, weight: Tensor, bias: Tensor | None, chain: int) -> Chains:
        """weight: [out, in]. RuntimeError or AttributeError where this torch or processor cannot."""
        outputs, inputs = weight.shape
        groups = -(-inputs // chain)
        stretch = -(-inputs // (8 * groups)) * 8  # whole vectors of 8 numbers
        padded = F.pad(weight, (0, groups * stretch - inputs))
        cut = padded.view(outputs, groups, stretch).transpose(0, 1).reshape(-1, stretch, 1, 1)
        if bias is not None:
            bias = torch.cat([bias, bias.new_zeros((groups - 1) * outputs)])
        laid = _lay_out(cut, groups, HINT)
        return cls(laid, bias, inputs, outputs, groups, stretch, _described(laid))

    def product(self, x: Tensor) -> Tensor:
        """x: [rows, in] -> [rows, out]."""
        if x.shape[0] > AT_ONCE:
            return torch.cat([self.product(part) for part in x.split(AT_ONCE)])
        rows = x.shape[0]
        if not rows:
            return x.new_empty(0, self.outputs)
        filled = fitting(self.layout, self.outputs, self.stretch, self.groups, rows)
        if filled > rows:
            x = torch.cat((x, x[-1:].expand(filled - rows, -1)))
        if self.groups * self.stretch > self.inputs:
            x = F.pad(x, (0, self.groups * self.stretch - self.inputs))
        pixels = x.reshape(1, 1, filled, -1).permute(0, 3, 1, 2)  # [1, in, 1, rows], channels last
        y = torch.ops.mkldnn._convolution_pointwise(
            pixels, self.weight, self.bias, *OPTIONS, self.groups, "none", [], ""
        )
        return y.permute(0, 2, 3, 1).reshape(filled, self.groups, self.outputs)[:rows].sum(1)

    def dense(self) -> Tensor:
        """The weight [out, in], bit by bit."""
        cut = self.weight.to_dense().view(self.groups, self.outputs, self.stretch)
        return cut.transpose(0, 1).reshape(self.outputs, -1)[:, : self.inputs]


def _lay_out(weight: Tensor, groups: int, rows: int) -> Tensor:
    pixels = [1, groups * weight.shape[1], 1, rows]
    return torch.ops.mkldnn._reorder_convolution_weight(weight, *OPTIONS, groups, pixels)


def _described(laid: Tensor) -> bytes:
    return bytes(torch.ops.mkldnn._get_mkldnn_serialized_md(laid).tolist())


@cache
def _layout(outputs: int, stretch: int, groups: int, rows: int) -> bytes:
    """The layout that oneDNN wants for so many rows."""
    return _described(_lay_out(torch.empty(groups * outputs, stretch, 1, 1), groups, rows))


@cache
def fitting(packed: bytes, outputs: int, stretch: int, groups: int, rows: int) -> int:
    """The least number of rows, from ``rows`` on, that is computed with the layout ``packed``.

    To ask costs as much as to lay the weight out once: a tenth of a second for a large output layer.
    """
    first = -(-rows // UNIT) * UNIT
    for count in range(first, first + SEARCH * UNIT, UNIT):
        if count == HINT or _layout(outputs, stretch, groups, count) == packed:
            return count
    return rows
