"""The capacity page's numbers and figures: arithmetic against known values, figures without a page."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import plotly.graph_objects as go
import pytest

from core.compare.block_size import SIZES
from core.compare.catalogue import CARDS, MODELS
from core.compare.paper import FIG_2, FIG_13, PAPER_NAMES
from core.compare.simulate import SimResult
from pages.parts import capacity_paper, charts, charts_paper
from pages.parts.capacity_figures import told
from pages.parts.capacity_numbers import OWN, Choices, error_numbers, room_of, rows_of, shape_of
from pages.parts.capacity_page import swept
from pages.parts.charts_paper import Beside
from pages.parts.compare_run import ALL


def taken(model: str, card: str = "A100-40GB") -> Choices:
    chosen = Choices(model=model, card=card)
    chosen.take_model()
    chosen.take_card()
    return chosen


def test_the_page_opens_with_the_papers_set_up_and_strategies_that_differ() -> None:
    """The paper: 800 KB a token, 15.7K slots. Case E1: the rows differ."""
    opening = Choices()
    assert opening == taken("OPT-13B") and shape_of(opening).bytes_per_token == 819_200
    assert room_of(opening) / 819_200 == pytest.approx(15_700, rel=0.02)
    rows = {row.strategy: row for row in rows_of(opening)}
    assert rows["reserve max"].requests == 7, "as in the paper's Fig. 13"
    assert len({row.requests for row in rows.values()}) >= 4 and rows["paged"].live_share > 0.96
    assert rows["paged"].requests > rows["exact"].requests > rows["reserve power of two"].requests


@pytest.mark.parametrize("model", MODELS)
def test_every_model_gives_its_own_numbers(model: str) -> None:
    chosen, shape = taken(model), MODELS[model]
    assert shape_of(chosen).bytes_per_token == shape.bytes_per_token
    for length in (1, 100, 5000):
        assert shape_of(chosen).sequence_bytes(length, 16) == shape.sequence_bytes(length, 16)
    assert chosen.prompt + chosen.new - 1 <= chosen.max_len
    assert rows_of(chosen)


def test_one_changed_number_makes_it_ones_own_and_follows() -> None:
    chosen = taken("Llama-3.1-8B", "H100-80GB")
    before = rows_of(chosen)
    chosen.kv_heads = 32
    chosen.own_model()
    assert (
        chosen.model == OWN and shape_of(chosen).bytes_per_token == 4 * MODELS["Llama-3.1-8B"].bytes_per_token
    )
    assert all(
        b.requests // 4 in (a.requests, a.requests + 1) for a, b in zip(rows_of(chosen), before, strict=True)
    )
    chosen.take_model()
    assert chosen.kv_heads == 32, "own numbers stay"
    assert taken("OPT-13B", "T4 16GB").memory == 16 and set(CARDS)


def test_refusals_are_sentences_with_numbers() -> None:
    with pytest.raises(ValueError, match="41 layers with a window are more than the model's 40 layers"):
        shape_of(Choices(windowed=41))
    with pytest.raises(ValueError, match=r"2000 \+ 338 tokens do not fit into a max model length of 2048"):
        rows_of(Choices(prompt=2000))
    assert room_of(Choices(card="T4 16GB", memory=16.0)) == 0.0


def test_the_error_to_find_is_the_number_of_query_heads() -> None:
    numbers = error_numbers()
    assert numbers["right"] == 131_072 and numbers["wrong"] == 4 * 131_072 and numbers["times"] == 4
    product = 2 * numbers["layers"] * numbers["query_heads"] * numbers["head_dim"] * numbers["bytes"]
    assert product == numbers["wrong"]


def test_waste_grows_and_the_table_shrinks_with_the_block() -> None:
    rows = swept("sharegpt", 500)
    assert [row.block_size for row in rows] == list(SIZES)
    assert all(a.waste < b.waste and a.entries > b.entries for a, b in pairwise(rows))
    assert rows[0].waste == 0


def results() -> dict[str, SimResult]:
    """Made-up results, one a system of the paper."""
    made = SimResult("", 1.0, 0.0, 0.2, 0.1, 0.4, 0.3, 0.5, 20.0, 1.0, 0, 10, 100)
    return {name: made._replace(strategy=name, batched=7.0 + place) for place, name in enumerate(FIG_2)}


def test_the_papers_figures_stand_beside_ours() -> None:
    cells = capacity_paper.figure_2(results(), PAPER_NAMES)
    assert [c.paper for c in cells[:4]] == [20.4, 13.3, 57.3, 8.9] and cells[0].ours == pytest.approx(20.0)
    assert capacity_paper.worst(cells, relative=False)[1] == "vLLM"
    bars = capacity_paper.figure_13("ShareGPT", results(), PAPER_NAMES)
    assert [c.paper for c in bars] == list(FIG_13["ShareGPT"].values()) and bars[0].ours == 7.0
    off, where = capacity_paper.worst(bars, relative=True)
    assert where == "vLLM" and off == pytest.approx(100 * (1 - 10 / 30.42))
    spoken = told(bars, {}, ("paper", "ours"))
    assert "Orca (Max): paper 7, ours 7.0" in spoken and spoken.count(";") == 3


def test_simulation_reports_its_progress_and_scales_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, float, str, int]] = []

    def fake(workload: str, rate: float, strategy: str, block_size: int) -> SimResult:
        asked.append((workload, rate, strategy, block_size))
        return results()[strategy]

    monkeypatch.setattr(capacity_paper, "simulated", fake)
    shares: list[float] = []
    found = capacity_paper.simulate_all(0.5, 32, shares.append)
    assert len(found) == 3 and len(asked) == len(shares) == 12
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] < 1
    assert asked[0] == ("ShareGPT", 2.0, "reserve max", 16) and asked[-1] == ("Alpaca", 15.0, "paged", 32)


def figures(dark: bool) -> dict[str, go.Figure]:
    """One of each."""
    cells = capacity_paper.figure_2(results(), PAPER_NAMES)
    bars = capacity_paper.figure_13("Alpaca", results(), PAPER_NAMES)
    kinds = {kind: kind for kind in charts_paper.KIND}
    return {
        "bars": charts.bars(["paged", "exact"], ["P", "E"], [3, None], ["3", "–"], title="T", dark=dark),
        "shares": charts_paper.shares(cells, kinds, ("paper", "ours"), dark=dark),
        "at once": charts_paper.at_once(bars, ("paper", "ours"), title="T", dark=dark),
        "blocks": charts_paper.block_sizes([1, 2, 4], [0, 5, 9], [90, 45, 22], 2, ("w", "t"), dark=dark),
        "time": charts.running_over_time({"paged": [(0, 2)]}, {"paged": "P"}, "s", title="T", dark=dark),
    }  # fmt: skip


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", list(figures(False)))
def test_every_figure_sets_its_colours_and_keeps_its_zoom(name: str, dark: bool) -> None:
    figure = json.loads(figures(dark)[name].to_json())
    layout = figure["layout"]
    ground = charts.look(dark).ground
    assert layout["paper_bgcolor"] == layout["plot_bgcolor"] == ground and layout["uirevision"]
    assert layout["font"]["color"] == charts.look(dark).ink and layout["height"] > 100
    assert contrast(charts.look(dark).ink, ground) >= 4.5 and contrast(charts.look(dark).quiet, ground) >= 4.5
    assert len(layout.get("shapes", [])) <= 1, "marks are data, not shapes"
    assert figure["data"]


def test_figures_hold_the_data_that_they_were_given() -> None:
    bars = figures(False)["bars"]
    assert list(bars.data[0].x) == [3, 0] and list(bars.data[0].text) == ["3", "–"]
    shares = figures(False)["shares"]
    assert len(shares.data) == 4 and all(len(trace.x) == 2 * len(FIG_2) for trace in shares.data)
    assert shares.data[0].x[0] == 20.4 and shares.data[0].x[1] == pytest.approx(20.0)
    ours = figures(False)["at once"].data[1]
    assert list(ours.y) == [7.0, 8.0, 9.0, 10.0]
    blocks = figures(False)["blocks"]
    assert list(blocks.data[0].marker.size) == [6, 11, 6] and blocks.layout.shapes[0].x0 == 1


def test_text_in_a_share_can_be_read_on_it() -> None:
    for kind, colour in charts_paper.KIND.items():
        assert contrast("#FFFFFF" if kind == "tokens" else "#0B0F14", colour) >= 4.5


def test_every_strategy_has_a_colour_of_its_own() -> None:
    assert set(ALL) <= set(charts.STRATEGY) and len(set(charts.STRATEGY.values())) == len(charts.STRATEGY)
    assert Beside("a", "b", None, 1.0).paper is None
    assert charts.spoken([("a", "1"), ("b", "2")]) == "a: 1; b: 2"


def contrast(one: str, other: str) -> float:
    """WCAG contrast of two #RRGGBB colours."""

    def light(colour: str) -> float:
        parts = [int(part, 16) / 255 for part in re.findall("..", colour[1:])]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    a, b = sorted((light(one), light(other)))
    return (b + 0.05) / (a + 0.05)
