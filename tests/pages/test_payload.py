"""The payload: the whole picture of a step, complete, small, and the same every time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.compare.lockstep import lockstep
from core.memory import events as ev
from core.scenarios import LESSONS, recorded_path
from core.trace import load
from core.trace.step import Trace
from pages.parts.labels import token_label
from pages.parts.payload import build_payload
from tests.pages import traces

ALL = {**traces.BY_NAME, **{f"real {name}": make for name, make in traces.REAL.items()}}


def payload(trace: Trace, index: int, **more: Any) -> dict[str, Any]:
    """As the browser gets it: through JSON and back."""
    return json.loads(json.dumps(build_payload(trace, index, lang="en", mode="recorded", **more)))


def held(data: dict[str, Any]) -> dict[int, tuple[str, int, list[int]]]:
    """Block -> (state, filled, owners): the browser's own derivation, see ``heldBlocks`` in physical.js."""
    size, blocks = data["size"], {}
    for row in data["seqs"]:
        for logical, block in enumerate(row["b"]):
            state, filled, owners = blocks.get(block, ("used", 0, []))
            mine = min(max(row["w"] - logical * size, 0), size)
            blocks[block] = (state, max(filled, mine), [*owners, row["p"]])
    for block, filled, owners in data["others"]:
        blocks[block] = ("used", filled, owners)
    for block, filled, _ in data["cached"]:
        blocks[block] = ("cached", filled, [])
    return blocks


def texts(data: dict[str, Any]) -> list[list[str | None]]:
    """The tokens of every row, unpacked as ``unpackTokens`` in logical.js does it."""
    rows: list[list[str | None]] = []
    for row in data["seqs"]:
        shared = rows[row["like"]][: row["same"]] if "like" in row else [None] * row["t0"]
        rows.append([*shared, *(data["tok"][i] for i in row["t"])])
    return rows


@pytest.mark.parametrize("name", ALL)
def test_the_picture_holds_every_block_sequence_and_token(name: str) -> None:
    trace = ALL[name]()
    for index, step in enumerate(trace.steps):
        data = payload(trace, index)
        expected = {
            block.id: (block.state, block.filled, block.ref if block.state == "used" else 0)
            for block in step.blocks
        }
        assert {
            b: (state, filled, len(owners)) for b, (state, filled, owners) in held(data).items()
        } == expected
        for row, words in zip(data["seqs"], texts(data), strict=True):
            view = step.sequences[row["p"]]
            assert (row["n"], row["w"], row["b"]) == (
                len(view.token_ids),
                view.written,
                list(view.block_table),
            )
            assert len(words) == row["n"]
            for token, word in zip(view.token_ids, words, strict=True):
                assert word is None or word == token_label(trace.tokens[token])
            if row["n"] > row["w"] and view.state == "running":
                assert words[row["w"]] is not None  # the chosen token, which is drawn as not yet written
        assert len(data["seqs"]) + len(data["over"]) + data["more"] == len(step.sequences)
        assert data["used"] + data["kept"] == len(step.blocks)


@pytest.mark.parametrize("name", ALL)
def test_the_same_step_gives_the_same_payload(name: str) -> None:
    one, two = ALL[name](), ALL[name]()
    for index in range(len(one.steps)):
        assert payload(one, index) == payload(two, index)


def test_what_changed_is_of_this_step_only() -> None:
    trace = traces.two_answers()
    data = payload(trace, 1)
    assert data["did"] == {"copy": [[4, 9, 2, 0, 2]], "write": [[9, 2, 1], [4, 2, 1]]}
    assert data["ref"] == {"4": 2}  # it was 2 and is 1 now
    assert [row.get("was") for row in data["seqs"]] == [{"2": 4}, None]
    assert data["here"] == ["copy"]
    assert payload(trace, 2)["did"] == {"write": [[9, 3, 1], [4, 3, 1]]}
    assert payload(trace, 2)["ref"] == {}


def test_a_block_taken_and_given_back_within_a_step_is_not_new() -> None:
    trace = traces.preempted()
    for index in range(len(trace.steps)):
        did = payload(trace, index)["did"]
        assert set(did.get("new", [])) <= {block.id for block in trace.steps[index].blocks}
        assert not set(did.get("gone", [])) & {block.id for block in trace.steps[index].blocks}


def test_chips_and_marks() -> None:
    trace = traces.two_answers()
    data = payload(trace, 1)
    assert data["marks"]["copy"] == [1]
    assert "copy" not in data["ahead"]  # greyed: none ahead
    assert {"allocate", "free", "finish"} <= set(data["ahead"])
    assert payload(trace, 0)["ahead"][:2] == ["allocate", "copy"]
    assert payload(trace, 6)["ahead"] == []


def test_finished_sequences_keep_their_place_while_there_are_few() -> None:
    few = payload(traces.two_answers(), 6)
    assert [row["p"] for row in few["seqs"]] == [0, 1] and few["over"] == []
    trace = traces.crowd(6, 64, 8, 10, 20)
    many = payload(trace, len(trace.steps) - 1)
    assert many["over"] == ["A", "B"]
    assert [row["p"] for row in many["seqs"]] == [2, 3, 4, 5, 6, 7]
    assert payload(trace, 4)["seqs"][0]["p"] == 0  # the one that ended in this very step


def test_more_sequences_than_there_is_room_for() -> None:
    trace = traces.crowd(40, 512, 16, 2, 30)
    data = payload(trace, 1)
    assert len(data["seqs"]) == 32 and data["more"] == 8
    assert {b for b, (state, _, _) in held(data).items() if state == "used"} == {
        b.id for b in trace.steps[1].blocks
    }


def test_a_huge_pool_is_cut_and_says_so() -> None:
    trace = traces.crowd(2, 5000, 16, 2, 30)
    trace.meta["num_blocks"] = 5000
    data = payload(trace, 0)
    assert (data["pool"], data["all"]) == (4096, 5000)


def test_payloads_stay_small() -> None:
    """256 blocks, 16 sequences, 15 KB: it travels on every click."""
    trace = traces.crowd()
    for index in range(len(trace.steps)):
        size = len(json.dumps(build_payload(trace, index, lang="zh", mode="live"), separators=(",", ":")))
        assert size < 15_000, (index, size)


@pytest.mark.parametrize(
    "name", ["two", "chinese", "real samples", "real recompute", "real swap", "real prefix"]
)
def test_strips_are_as_long_as_the_pool_and_say_what_usage_says(name: str) -> None:
    trace = ALL[name]()
    reports = lockstep(trace, ("reserve max", "doubling", "paged"), drain=False)
    for index, step in enumerate(trace.steps):
        data = payload(trace, index, lockstep=reports)
        assert [row["name"] for row in data["strips"]] == ["reserve max", "doubling", "paged"]
        for row in data["strips"]:
            usage = reports[index][row["name"]].usage
            sums: dict[str, int] = {}
            for kind, length, _ in row["segs"]:
                sums[kind] = sums.get(kind, 0) + length
            assert sum(sums.values()) == usage.capacity
            assert sums.get("live", 0) == usage.live
            assert sums.get("empty", 0) == usage.reserved + usage.internal
            assert sums.get("cached", 0) == usage.cached
            taken = usage.live + usage.reserved + usage.internal
            assert row["useful"] == (round(100 * usage.live / taken) if taken else None)
        assert step.usage[0].strategy == "paged"


def test_strips_without_lockstep_follow_the_trace_s_own_events() -> None:
    trace = traces.two_answers()
    strip = payload(trace, 1)["strips"][0]
    assert strip["segs"] == [["live", 11, [0]], ["empty", 21, [0]], ["live", 11, [1]], ["empty", 21, [1]]]
    assert (strip["useful"], strip["note"]) == (34, "0 slots left")
    shared = payload(trace, 1)["strips"][1]
    assert shared["segs"][0] == ["live", 8, [0, 1]]  # once, for both
    assert shared["note"] == "12 blocks left"
    assert payload(trace, 6)["strips"][0]["segs"] == [["free", 64, []]]


def test_without_lockstep_a_strip_shows_what_its_strategy_holds_not_what_runs_above() -> None:
    """Doubling may be a step behind: label, hatching and per cent are of one moment."""
    trace = load(LESSONS / "first-steps.kvtrace.json.gz")
    for index, step in enumerate(trace.steps):
        usage = {entry.strategy: entry for entry in step.usage}
        for strip in payload(trace, index)["strips"]:
            live = sum(length for kind, length, _ in strip["segs"] if kind == "live")
            assert live == usage[strip["name"]].live, (index, strip["name"])


def test_who_lost_its_run_for_want_of_room_is_said() -> None:
    trace = load(LESSONS / "first-steps.kvtrace.json.gz")
    given = next(
        (index, event)
        for index, step in enumerate(trace.steps)
        for event in step.events
        if isinstance(event, ev.GiveBack)
        and event.strategy == "doubling"
        and any(view.id == event.sequence and view.state == "running" for view in step.sequences)
    )
    index = given[0]
    note = {row["name"]: row["note"] for row in payload(trace, index)["strips"]}["doubling"]
    copied = next(u.copied for u in trace.steps[index].usage if u.strategy == "doubling")
    assert note == f"B stopped: no room; {copied} copied"
    before = {row["name"]: row["note"] for row in payload(trace, index - 1)["strips"]}["doubling"]
    assert "stopped" not in before


def test_a_finished_beam_is_not_a_dropped_one() -> None:
    trace = load(LESSONS / "three-beams.kvtrace.json.gz")
    over = {e.sequence: e.reason for s in trace.steps for e in s.events if isinstance(e, ev.Finish)}
    last = len(trace.steps) - 1
    ends = {node[2]: (node[5], node[7]) for node in payload(trace, last)["beams"]["nodes"] if node[0] == last}
    names = {place: view.id for place, view in enumerate(trace.steps[last].sequences)}
    assert ends and "dropped" in over.values()
    for place, (dropped, complete) in ends.items():
        reason = over.get(names[place])
        assert (dropped, complete) == (int(reason == "dropped"), int(reason not in (None, "dropped")))


def test_who_waits_and_why_stands_beside_the_strip() -> None:
    trace = traces.scheduled(*({"prompt": 6, "new": 10} for _ in range(4)), blocks=16)
    reports = lockstep(trace, ("reserve max", "paged"), drain=False, max_model_len=30)
    waiting = reports[0]["reserve max"].waiting
    assert waiting is not None
    note = payload(trace, 0, lockstep=reports)["strips"][0]["note"]
    assert note in (
        f"waits: needs {waiting.need}, {waiting.free} free",
        f"waits: {waiting.need} in a row, longest {waiting.longest}",
    )


@pytest.mark.parametrize("name", ["two", "crowd", "real recompute"])
def test_the_chart_has_the_value_of_every_step(name: str) -> None:
    trace = ALL[name]()
    chart = payload(trace, 0)["chart"]
    assert chart["cap"] == trace.meta["block_size"] * trace.meta["num_blocks"]
    assert (
        chart == payload(trace, len(trace.steps) - 1)["chart"]
    )  # the same from every step: only the cursor moves
    for line in chart["lines"]:
        for index, step in enumerate(trace.steps):
            usage = next(u for u in step.usage if u.strategy == line["name"])
            value = [slots for at, slots in line["at"] if at <= index][-1]
            assert value == usage.live + usage.reserved + usage.internal


def test_the_beam_tree_says_who_died_and_what_came_back() -> None:
    trace = traces.beams()
    tree = payload(trace, 3)["beams"]
    dead = [node for node in tree["nodes"] if node[5]]
    assert [(step, place) for step, _, place, *_ in dead] == [(1, 2), (3, 1)]
    for step, _, place, _, _, _, given, _ in dead:
        name = trace.steps[step].sequences[place].id
        last = {
            e.block
            for e in trace.steps[step].events
            if isinstance(e, ev.Release) and e.sequence == name and e.ref == 0
        }
        assert given == len(last)
    assert tree["columns"] == 4 and tree["lanes"] == 4
    assert payload(traces.two_answers(), 1)["beams"] is None


def test_beam_lanes_do_not_grow_with_every_death() -> None:
    trace = traces.REAL["beams"]()
    for index in range(len(trace.steps)):
        tree = payload(trace, index)["beams"]
        assert tree["lanes"] <= 6  # at most twice the width: those that live and those that just died
        spots = [(node[0], node[1]) for node in tree["nodes"]]
        assert len(spots) == len(set(spots))
        known = set(spots)
        assert all(
            (step, lane) in known and (step - 1, before) in known for step, lane, before in tree["edges"]
        )


def test_swapped_blocks_are_a_third_place() -> None:
    trace = traces.swap()
    assert payload(trace, 4)["host"] == []
    data = payload(trace, 5)
    assert [block for block, _, _, _ in data["host"]] == [0, 1, 2]
    blocks = {block.id: block for block in trace.steps[5].host_blocks}
    for block, filled, labels, owners in data["host"]:
        assert filled == blocks[block].filled and owners == [1]  # B is the one that is away
        assert [data["tok"][i] for i in labels] == [
            token_label(trace.tokens[token]) for token in blocks[block].token_ids
        ]
    assert sorted(host for _, host in data["did"]["out"]) == [0, 1, 2]
    assert [row["state"] for row in data["seqs"]] == ["running", "swapped"]
    assert data["seqs"][1]["changed"]


def test_a_trace_without_tokens_shows_ids() -> None:
    trace = traces.two_answers()
    trace.tokens = {}
    words = texts(payload(trace, 0))[0]
    assert all(word and word.startswith("#") for word in words)


def test_a_trace_without_steps_is_an_empty_pool() -> None:
    data = payload(Trace(meta={"block_size": 4, "num_blocks": 8}), 0, can_step_live=True)
    assert (data["index"], data["last"], data["seqs"], data["used"]) == (0, 0, [], 0)
    assert data["can_step"] and data["say"]["text"]
    full = payload(traces.two_answers(), 0)
    assert full.keys() == data.keys()  # the script may rely on every key


def test_an_index_outside_is_taken_as_the_nearest_step() -> None:
    trace = traces.two_answers()
    assert payload(trace, -3)["index"] == 0
    assert payload(trace, 99)["index"] == 6


def test_what_the_page_hands_in_goes_through() -> None:
    gate = {"id": "g", "question": "?", "kind": "block", "options": [], "answer": 3, "result": None}
    data = payload(
        traces.two_answers(),
        1,
        selection={"block": 4},
        title="T",
        busy=True,
        lecture=True,
        gate=gate,
        can_step_live=True,
    )
    assert data["selection"] == {"block": 4} and data["title"] == "T" and data["gate"] == gate
    assert data["busy"] and data["lecture"] and data["can_step"] and data["mode"] == "recorded"


def test_language_changes_words_and_nothing_else() -> None:
    trace = traces.two_answers()
    english = build_payload(trace, 1, lang="en", mode="recorded")
    chinese = build_payload(trace, 1, lang="zh", mode="recorded")
    assert english["say"]["kind"] == chinese["say"]["kind"] == "copy"
    assert chinese["say"]["head"] == "写时复制（copy-on-write）。"
    for key in ("seqs", "did", "ref", "marks", "ahead", "used", "tok", "index"):
        assert english[key] == chinese[key]


def test_memory_has_the_last_word_on_what_a_block_holds() -> None:
    """Copy-on-write off: two sequences read another's token, in that step and in all that follow."""
    trace = load(recorded_path("no-copy-on-write"))
    for index, step in enumerate(trace.steps):
        payload = build_payload(trace, index, lang="en", mode="recorded")
        held = {block.id: block for block in step.blocks}
        said = {block: [payload["tok"][i] for i in labels] for block, labels in payload["torn"].items()}
        listed = {block for view in step.sequences for block in view.block_table}
        assert set(said) == ({8} & listed if index else set())
        for block, labels in said.items():
            texts = [trace.tokens[token].decode().strip() for token in held[block].token_ids]
            assert [label.strip() for label in labels] == texts and "woman" in texts
    sound = load(recorded_path("half-full-block"))
    assert not any(
        build_payload(sound, i, lang="en", mode="recorded")["torn"] for i in range(len(sound.steps))
    )
