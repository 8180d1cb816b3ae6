"""The beam tree beside the blocks: which hypothesis lives, which died, what its death gave back. Pure.

Columns are the last steps, lanes the hypotheses; a lane is used again when its hypothesis is dead, so that
the drawing stays as high as the beam is wide.
"""

from __future__ import annotations

from typing import Any

from core.memory import events as ev
from core.memory.views import RequestView
from core.trace.step import Step, Trace
from pages.parts.labels import Labels

COLUMNS = 6


def beam_request(trace: Trace, index: int) -> RequestView | None:
    """The request whose tree is shown: the first beam search that has a running hypothesis, else none."""
    beams = {request.id: request for request in trace.requests if request.mode == "beam"}
    step = trace.steps[index]
    touched = {view.request for view in step.sequences if view.state != "finished"}
    touched |= {_request_of(step, event.sequence) for event in step.events if isinstance(event, ev.Finish)}
    return next((beams[name] for name in beams if name in touched), None)


def _request_of(step: Step, sequence: str) -> str:
    return next((view.request for view in step.sequences if view.id == sequence), "")


def beam_tree(trace: Trace, index: int, labels: Labels) -> dict[str, Any] | None:
    """The tree up to step ``index``, or None without a beam search.

    {"first": step of the first column, "columns", "lanes", "nodes": [[step, lane, place, label, logprob,
    dropped, blocks given back, complete]], "edges": [[step, lane, lane before]]}; a hypothesis that ends
    without being dropped is complete: one of the answers.
    """
    request = beam_request(trace, index)
    if request is None:
        return None
    place = {view.id: number for number, view in enumerate(trace.steps[index].sequences)}
    lanes: dict[str, int] = {}
    nodes: list[list[Any]] = []
    edges: list[list[int]] = []
    first = max(index - COLUMNS + 1, 0)
    for number in range(index + 1):
        step = trace.steps[number]
        over = {e.sequence: e.reason for e in step.events if isinstance(e, ev.Finish)}
        parents = {e.child: e.parent for e in step.events if isinstance(e, ev.Fork)}
        chosen = {e.sequence: e.token_id for e in step.events if isinstance(e, ev.Sample)}
        before = dict(lanes)
        mine = [view for view in step.sequences if view.request == request.id]
        for view in mine:
            if view.id not in chosen and view.id not in over:
                continue
            lane = lanes.setdefault(view.id, _free_lane(lanes))
            if number < first:
                continue
            came_from = before.get(view.id, before.get(parents.get(view.id, ""), -1))
            if number > first and came_from >= 0:
                edges.append([number, lane, came_from])
            token = chosen.get(view.id)
            label = labels.index(token) if token is not None else -1
            score = None if view.logprob is None else round(view.logprob, 2)
            given = _given_back(step, view.id) if view.id in over else 0
            dropped = over.get(view.id) == "dropped"
            ends = [int(dropped), given, int(view.id in over and not dropped)]
            nodes.append([number, lane, place[view.id], label, score, *ends])
        for ended in over:
            lanes.pop(ended, None)
    height = 1 + max((node[1] for node in nodes), default=0)
    return {"first": first, "columns": index - first + 1, "lanes": height, "nodes": nodes, "edges": edges}


def _free_lane(lanes: dict[str, int]) -> int:
    taken = set(lanes.values())
    return next(lane for lane in range(len(taken) + 1) if lane not in taken)


def _given_back(step: Step, sequence: str) -> int:
    """Blocks that went back because this sequence was the last to list them."""
    last = {
        e.block for e in step.events if isinstance(e, ev.Release) and e.sequence == sequence and e.ref == 0
    }
    return sum(1 for e in step.events if isinstance(e, (ev.Free, ev.Cache)) and e.block in last)
