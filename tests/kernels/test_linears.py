"""Packed linear layers: the same numbers, undone without a trace, and left alone where they do not pay."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from kernels import chains, linears, pack_linears, unpack
from kernels.chains import Chains
from kernels.stretches import Stretches, cut

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


def make(dtype: torch.dtype) -> tuple[Model, Tensor]:
    torch.manual_seed(0)
    return Model().to(dtype).eval(), torch.randint(0, 100, (1, 7))


@pytest.mark.parametrize(
    ("dtype", "chain", "limit"),
    [(torch.float32, None, 1e-5), (torch.float32, 20, 1e-5), (torch.bfloat16, None, 5e-2)],
)
def test_packed_and_plain_agree_and_unpacking_leaves_no_trace(
    dtype: torch.dtype, chain: int | None, limit: float
) -> None:
    model, ids = make(dtype)
    with torch.inference_mode():
        plain = model(ids)
    before = {name: p.clone() for name, p in model.state_dict().items()}
    report = pack_linears(model, chain=chain)
    assert (report.packed, report.plain) == (15, 0)
    with torch.inference_mode():
        for rows in (ids, ids[:, :1], ids[:, :0], ids.repeat(3, 2)):
            packed = model(rows)
            assert packed.dtype == dtype and packed.shape == (*rows.shape, 100)
        assert (model(ids) - plain).abs().max() <= limit * plain.abs().max()
    assert unpack(model) == 15 and unpack(model) == 0
    with torch.inference_mode():
        assert torch.equal(model(ids), plain)
    assert all(torch.equal(p, before[name]) for name, p in model.state_dict().items())
    assert model.lm_head.weight is model.embed.weight


@pytest.fixture(autouse=True)
def nothing_is_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """All weights here are tiny; unless a test says otherwise, they are treated as wide ones."""
    monkeypatch.setattr(linears, "NARROW", 0)


def test_a_single_row_and_narrow_layers_go_by_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """gate and up are one weight of 128 outputs; q, k and v of 160; o and down of 48."""
    monkeypatch.setattr(linears, "NARROW", 100)
    model, ids = make(torch.float32)
    with torch.inference_mode():
        plain = model(ids), model(ids[:, :1])
        pack_linears(model, chain=16)
        for found, wanted in zip((model(ids), model(ids[:, :1])), plain, strict=True):
            assert (found - wanted).abs().max() <= 1e-5 * wanted.abs().max()
    layer = model.layers[0]
    assert isinstance(layer.o_proj.packed[0].matrix, Stretches) and layer.o_proj.packed[0].single is None
    assert isinstance(layer.up_proj.packed[0].matrix, Chains)
    assert isinstance(layer.up_proj.packed[0].single, Stretches) and layer.up_proj.weight.is_meta
    unpack(model)
    monkeypatch.setattr(linears, "KEPT", 4 * 160 * 48 + 100)
    pack_linears(model, chain=16)
    kept = [getattr(layer, name).packed[0].single is not None for name in ("q_proj", "up_proj")]
    assert kept == [True, False], "the second copies of the rest are too many"


def test_plain_weights_are_given_back_unless_they_are_needed() -> None:
    model, _ = make(torch.float32)
    pack_linears(model)
    assert model.layers[0].q_proj.weight.is_meta and model.layers[0].q_proj.weight.shape == (96, 48)
    assert not model.lm_head.weight.is_meta  # the embedding reads it
    other, _ = make(torch.float32)
    pack_linears(other, keep_dense=True)
    assert not other.layers[0].q_proj.weight.is_meta


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


@pytest.mark.parametrize("chain", [None, 16])
def test_a_row_has_the_same_bits_alone_and_in_a_crowd(
    chain: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where single rows have no way of their own. And in every process: nothing depends on a clock."""
    monkeypatch.setattr(linears, "KEPT", 0)
    one, two = make(torch.float32)[0], make(torch.float32)[0]
    assert pack_linears(one, chain=chain) == pack_linears(two, chain=chain)
    ids = torch.arange(12)[None]
    with torch.inference_mode():
        crowd = one.lm_head(one.embed(ids))
        assert torch.equal(crowd, two.lm_head(two.embed(ids)))
        for i in range(12):
            assert torch.equal(one.lm_head(one.embed(ids[:, i : i + 1])), crowd[:, i : i + 1])


def test_one_row_of_a_widened_model_stays_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """bf16 on a processor without bf16 products: plain weights answer a single row, unless they are many."""
    calls, product = [], linears.Whole.product
    monkeypatch.setattr(linears, "storage", lambda dtype: torch.float32)
    model, ids = make(torch.bfloat16)
    one = ids[:, :1]
    with torch.inference_mode():
        plain, crowd = model(one), model(ids)
        pack_linears(model)
        monkeypatch.setattr(linears.Whole, "product", lambda p, x: calls.append(len(x)) or product(p, x))
        assert torch.equal(model(one), plain) and not calls
        assert (model(ids) - crowd).abs().max() < 5e-2 * crowd.abs().max() and calls
        assert not model.layers[0].q_proj.weight.is_meta and unpack(model) == 15
        monkeypatch.setattr(linears, "KEPT", 100)
        pack_linears(model)
        assert model.layers[0].q_proj.weight.is_meta and model(one).isfinite().all()


def test_types_that_are_not_packed() -> None:
    model, _ = make(torch.float64)
    report = pack_linears(model)
    assert (report.packed, report.plain) == (0, 15) and "float64" in (report.reason or "")
    assert linears.storage(torch.float32) == torch.float32


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


@torch.no_grad()
@pytest.mark.parametrize("narrow", [0, 1000])
def test_short_chains_round_less_and_give_the_weights_back(
    narrow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs that do not divide evenly, with and without a bias, few rows and many; against float64."""
    monkeypatch.setattr(linears, "NARROW", narrow)
    torch.manual_seed(1)
    for inputs, bias in ((640, False), (577, True)):
        plain = nn.Linear(inputs, 300, bias=bias)
        x = torch.randn(600, inputs)
        truth = nn.functional.linear(x.double(), plain.weight.double(), plain.bias.double() if bias else None)
        errors: dict[object, float] = {"plain": float((plain(x) - truth).detach().pow(2).mean().sqrt())}
        for chain in (None, 160):
            model = nn.Sequential(nn.Linear(inputs, 300, bias=bias))
            model[0].load_state_dict(plain.state_dict())
            assert pack_linears(model, chain=chain).packed == 1
            with torch.inference_mode():
                got = model(x)
                few, last = model(x[:5]), model(x[599:])
                if chain and narrow:  # stretches: nearly the same
                    assert torch.allclose(got[:5], few, rtol=0, atol=3e-6)
                else:
                    assert torch.equal(got[:5], few)
                if chain:  # a row alone goes by stretches
                    assert torch.allclose(got[599:], last, rtol=0, atol=3e-6)
                else:
                    assert torch.equal(got[599:], last)
            errors[chain] = float((got.double() - truth).pow(2).mean().sqrt())
            assert unpack(model) == 1 and torch.equal(model[0].weight, plain.weight)
        assert errors[160] < min(0.7 * errors[None], errors["plain"]), errors


def test_stretches_are_even_where_they_can_be() -> None:
    assert [cut(n, 160) for n in (576, 640, 1536, 100, 577, 160, 161)] == [4, 4, 12, 1, 4, 1, 2]


def test_rows_are_added_until_the_weight_lies_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only row counts whose layout is the packed one are computed; where there is none, the rows stay."""
    monkeypatch.setattr(chains, "_layout", lambda *shape: b"a" if shape[3] == 44 else b"b")
    chains.fitting.cache_clear()
    assert [chains.fitting(b"a", 8, 8, 1, rows) for rows in (30, 33, 44, 45)] == [32, 44, 44, 45]
    chains.fitting.cache_clear()
    monkeypatch.undo()
    packed = Chains.pack(torch.randn(96, 64), None, 16)
    assert packed.layout == chains._layout(96, packed.stretch, packed.groups, chains.HINT)
