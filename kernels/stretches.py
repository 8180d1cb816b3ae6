"""A linear layer in several short chains, as one batched product: the fastest on a single row, plain torch.

The weight is kept transposed and cut into stretches of inputs. Each stretch gives a partial sum for every
output; the few partial sums are then added:

    x [rows, in]  =  | stretch 0 | stretch 1 | ... |      weight [stretches, inputs of one, out]
    y [rows, out] =     sum 0    +   sum 1   + ...

A single row reads the weight once from end to end, at nearly the memory's speed. Measured (2 cores, fp32,
576 inputs, 3,072 outputs, one row): 0.28 ms; F.linear 0.55, packed for oneDNN 0.35, in short chains 0.50
(chains.py). From some rows on wide layers gain more from chains.py, narrow ones never do. What an fp32 sum
rounds away grows with the length of its chain: root mean square error at 576 inputs, one chain 4.2e-7,
F.linear 2.2e-7, four stretches 2.2e-7, eight 1.6e-7.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.chains import AT_ONCE


def cut(inputs: int, chain: int) -> int:
    """Into how many stretches: each at most ``chain`` long; evenly, where up to twice as many allow it."""
    least = -(-inputs // chain)
    return next((n for n in range(least, 2 * least + 1) if inputs % n == 0), least)


@dataclass(frozen=True, slots=True)
class Stretches:
    """A weight [out, in] as [stretches, inputs of one, out]."""

    weight: Tensor
    bias: Tensor | None  # [out]
    inputs: int

    @classmethod
    def pack(cls, weight: Tensor, bias: Tensor | None, chain: int) -> Stretches:
        """weight: [out, in]. The last stretch is filled up with zeros where they are not even."""
        outputs, inputs = weight.shape
        count = cut(inputs, chain)
        length = -(-inputs // count)
        if count * length > inputs:
            weight = F.pad(weight, (0, count * length - inputs))
        return cls(weight.view(outputs, count, length).permute(1, 2, 0).contiguous(), bias, inputs)

    def product(self, x: Tensor) -> Tensor:
        """x: [rows, in] -> [rows, out]."""
        if x.shape[0] > AT_ONCE:
            return torch.cat([self.product(part) for part in x.split(AT_ONCE)])
        count, length, _ = self.weight.shape
        if count * length > self.inputs:
            x = F.pad(x, (0, count * length - self.inputs))
        y = torch.bmm(x.view(-1, count, length).transpose(0, 1), self.weight).sum(0)
        return y if self.bias is None else y.add_(self.bias)

    def dense(self) -> Tensor:
        """The weight [out, in], bit by bit."""
        return self.weight.flatten(0, 1)[: self.inputs].t().contiguous()
