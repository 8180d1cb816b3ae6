"""Packed linear layers: the same numbers, undone without a trace, and left alone where they do not pay."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from kernels import linears, pack_linears, unpack

CAN_PACK = "mkldnn" in str(torch.backends.mkldnn) and torch.backends.mkldnn.is_available()
pytestmark = pytest.mark.skipif(not CAN_PACK, reason="this torch has no oneDNN")


class Layer(nn.Module):
    """A decoder layer's linear parts, called as transformers calls them."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(48, 96, bias=bias), nn.Linear(48, 32, bias=False)
        self.v_proj, self.o_proj = nn.Linear(48, 32, bias=bias), nn.Linear(96, 48)
        self.gate_proj, self.up_proj = nn.Linear(48, 64, bias=False), nn.Linear(48, 64, bias=False)
        self.down_proj = nn.Linear(64, 48, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        y = self.o_proj(q * (k.sum(-1, keepdim=True) - v.mean(-1, keepdim=True)).tanh())
        return x + self.down_proj(torch.sigmoid(self.gate_proj(y)) * self.up_proj(y))


class Model(nn.Module):
    """Two layers between a tied embedding and output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.layers = nn.Embedding(100, 48), nn.ModuleList([Layer(), Layer()])
        self.lm_head = nn.Linear(48, 100, bias=False)
        self.lm_head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(x)


@pytest.fixture
def always_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timing small layers is a lottery; these tests are about the rest."""

    def timing(packed: list[linears.Packed], sample: list) -> linears.ShapeTiming:
        stored = str(packed[0].compute).removeprefix("torch.")
        return linears.ShapeTiming(
            1, sum(packed[0].sizes), len(sample[0]), stored, (2.0,), (1.0,), True, (1,)
        )

    monkeypatch.setattr(linears, "time_shape", timing)


def make(dtype: torch.dtype) -> tuple[Model, Tensor]:
    torch.manual_seed(0)
    return Model().to(dtype).eval(), torch.randint(0, 100, (1, 7))


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-5), (torch.bfloat16, 5e-2)])
@pytest.mark.usefixtures("always_faster")
def test_packed_and_plain_agree_and_unpacking_leaves_no_trace(dtype: torch.dtype, limit: float) -> None:
    model, ids = make(dtype)
    with torch.inference_mode():
        plain = model(ids)
    before = {name: p.clone() for name, p in model.state_dict().items()}
    report = pack_linears(model)
    assert (report.packed, report.plain) == (15, 0)
    with torch.inference_mode():
        for rows in (ids, ids[:, :1], ids.repeat(3, 2)):
            packed = model(rows)
            assert packed.dtype == dtype and packed.shape == (*rows.shape, 100)
        assert (model(ids) - plain).abs().max() <= limit * plain.abs().max()
    assert unpack(model) == 15 and unpack(model) == 0
    with torch.inference_mode():
        assert torch.equal(model(ids), plain)
    assert all(torch.equal(p, before[name]) for name, p in model.state_dict().items())
    assert model.lm_head.weight is model.embed.weight


@pytest.mark.usefixtures("always_faster")
def test_plain_weights_are_given_back_unless_they_are_needed() -> None:
    model, _ = make(torch.float32)
    pack_linears(model)
    assert model.layers[0].q_proj.weight.is_meta and model.layers[0].q_proj.weight.shape == (96, 48)
    assert not model.lm_head.weight.is_meta  # the embedding reads it
    other, _ = make(torch.float32)
    pack_linears(other, keep_dense=True)
    assert not other.layers[0].q_proj.weight.is_meta


@pytest.mark.usefixtures("always_faster")
def test_layers_with_one_input_are_one_product_and_keep_nothing() -> None:
    model, ids = make(torch.float32)
    pack_linears(model)
    layer = model.layers[0]
    shared = {id(getattr(layer, n).packed[0]) for n in ("q_proj", "k_proj", "v_proj")}
    assert len(shared) == 1
    with torch.inference_mode():
        model(ids)
        assert layer.q_proj.packed[0].seen is None  # the last of the three let go of the input
        # Another order, the same layer twice, and a different input in between are all answered rightly.
        a, b = torch.randn(2, 48), torch.randn(2, 48)
        first = [layer.v_proj(a), layer.v_proj(a), layer.q_proj(b), layer.k_proj(a), layer.q_proj(a)]
    unpack(model)
    again = [layer.v_proj(a), layer.v_proj(a), layer.q_proj(b), layer.k_proj(a), layer.q_proj(a)]
    for x, y in zip(first, again, strict=True):
        assert torch.allclose(x, y, rtol=1e-5, atol=1e-6)


def test_what_is_not_faster_stays_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = linears.ShapeTiming(1, 1, 1, "float32", (1.0,), (2.0,), False, (1,))
    monkeypatch.setattr(linears, "time_shape", lambda packed, layers: slow)
    model, _ = make(torch.float32)
    report = pack_linears(model)
    assert (report.packed, report.plain) == (0, 15) and "faster" in (report.reason or "")
    assert unpack(model) == 0


@pytest.mark.usefixtures("always_faster")
def test_wrong_products_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    good = linears.Packed.product
    monkeypatch.setattr(linears.Packed, "product", lambda self, x: good(self, x) * 1.001)
    model, _ = make(torch.float32)
    report = pack_linears(model)
    assert report.packed == 0 and "agree" in (report.reason or "")


def test_without_the_operators_the_model_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise AttributeError("'_OpNamespace' 'mkldnn' object has no attribute '_reorder_linear_weight'")

    monkeypatch.setattr(linears, "make_packed", missing)
    model, ids = make(torch.float32)
    plain = model(ids)
    report = pack_linears(model)
    assert report.packed == 0 and "_reorder_linear_weight" in (report.reason or "")
    assert torch.equal(model(ids), plain)


def test_timing_takes_turns_and_decides_by_all_row_counts() -> None:
    layer = [("x", nn.Linear(64, 64).requires_grad_(False))]
    with torch.inference_mode():
        timing = linears.time_shape([linears.make_packed(layer, torch.float32)] * 2, [layer, layer])
    assert timing.rows == linears.ROWS and all(s > 0 for s in timing.plain + timing.packed)
    mean = sum(p / q for p, q in zip(timing.plain, timing.packed, strict=True)) / len(timing.rows)
    assert timing.kept == (mean > 1)


@pytest.mark.usefixtures("always_faster")
def test_only_true_linear_layers_are_touched() -> None:
    class Scaled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    model = nn.Sequential(Scaled(8, 8), nn.Linear(8, 8), nn.LayerNorm(8))
    x = torch.randn(3, 8)
    plain = model(x).detach()
    assert pack_linears(model).packed == 1
    with torch.inference_mode():
        assert torch.allclose(model(x), plain, atol=1e-6)
