"""After the forward pass: fork, append, end. Each pass goes over all groups before the next begins."""

from __future__ import annotations

from core.engine.beams import BeamStep, Child
from core.engine.finishing import finish_sequence
from core.engine.groups import Group
from core.engine.plan import Candidate, Outcome
from core.engine.state import State
from core.memory.events import Event, Sample
from core.memory.sequence import Sequence

Ending = tuple[Group, Sequence, str]  # who ends, and why


def answer(state: State, groups: list[Group], outcome: Outcome, events: list[Event]) -> None:
    """Give every sequence of these groups its next token. Order of events: forks, samples, ends.

    Children are forked before their parents are freed.
    """
    given: list[tuple[Group, Sequence, Candidate]] = []
    endings: list[Ending] = []
    for group in groups:
        if group.beams is None:
            given += _fork_answers(state, group, outcome, events)
        else:
            more, ends = _fork_beams(state, group, outcome, events)
            given += more
            endings += ends
        group.phase = "decode"
    for group, seq, token in given:
        seq.token_ids.append(token.token_id)
        if group.beams is not None:
            seq.logprob = token.logprob
        else:
            if seq.logprob is not None:
                seq.logprob += token.logprob
            reason = _why_over(group, seq)
            if reason:
                endings.append((group, seq, reason))
        state.memory.touch(seq)
        events.append(Sample(seq.id, token.token_id, ""))
    for group, seq, reason in endings:
        finish_sequence(state, group, seq, reason, events)


def _why_over(group: Group, seq: Sequence) -> str | None:
    if seq.token_ids[-1] in group.stop_token_ids:
        return "stop"
    new = len(seq.token_ids) - len(group.request.prompt_token_ids)
    return "length" if new >= group.request.max_new_tokens else None


def _fork_answers(
    state: State, group: Group, outcome: Outcome, events: list[Event]
) -> list[tuple[Group, Sequence, Candidate]]:
    """One token for each sequence; when the prompt has just been computed, the other answers begin here."""
    if group.phase != "prefill":
        return [(group, seq, outcome.samples[seq.id][0]) for seq in group.live]
    first = group.live[0]
    for _ in range(1, group.width):
        state.memory.fork(first, group.new_sequence(first), events)
    return [(group, *pair) for pair in zip(group.live, outcome.samples[first.id], strict=True)]


def _fork_beams(
    state: State, group: Group, outcome: Outcome, events: list[Event]
) -> tuple[list[tuple[Group, Sequence, Candidate]], list[Ending]]:
    """Fork the beams' children. The last child of a parent goes on in the parent's own sequence."""
    assert group.beams is not None
    step: BeamStep = group.beams.advance(outcome.candidates)
    given, endings = [], []
    for parent in tuple(group.live):
        children: list[Child] = [c for c in (*step.ended, *step.alive) if c.parent == parent.id]
        for child in children:
            last = child is children[-1]
            seq = parent if last else group.new_sequence(parent)
            if not last:
                state.memory.fork(parent, seq, events)
            child.sequence = seq.id
            given.append((group, seq, Candidate(child.token_id, child.logprob)))
            if child.ended:
                endings.append((group, seq, child.ended))
        if not children:
            endings.append((group, parent, "dropped"))
    return given, endings
