"""What the paged run has produced so far, request by request, so that other strategies can follow at their
own pace.

A request's clock is its **depth**: how many tokens each of its sequences has sampled. After depth d a
sequence has written prompt + d - 1 tokens (the newest one is written in the next step). A strategy that
admits the request later plays the same depths later; it is never ahead of the paged run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.memory.views import RequestView, SequenceView


@dataclass(slots=True)
class Track:
    """One sequence of a request: born at depth ``birth`` (0: it computes the prompt itself), over at
    ``end``."""

    id: str
    parent: str | None
    birth: int
    depth: int = 0  # as far as the paged run has got
    end: int | None = None  # the depth at which its slots are given back
    final: int | None = None  # tokens written when it ended

    def final_or(self, length: int) -> int:
        """``length``, or as far as the sequence ever came."""
        return length if self.final is None else min(length, self.final)


@dataclass(slots=True)
class Script:
    """One request's history under the paged run, which only grows."""

    request: RequestView
    prompt: int  # tokens
    depth: int = 0  # the furthest depth that can be played
    prefilled: int = 0  # tokens of the prompt written so far, while depth is 0
    tracks: dict[str, Track] = field(default_factory=dict)
    born: dict[int, list[Track]] = field(default_factory=dict)  # depth -> tracks born there by a fork
    ends: dict[int, list[Track]] = field(default_factory=dict)  # depth -> tracks over there

    def alive(self, depth: int) -> list[Track]:
        """The sequences that hold memory after ``depth``, in order of creation."""
        return [t for t in self.tracks.values() if t.birth <= depth and (t.end is None or t.end > depth)]

    @property
    def over(self) -> bool:
        """Every sequence of the request has ended under the paged run."""
        return all(t.end is not None for t in self.tracks.values())

    @property
    def withdrawn(self) -> bool:
        """Refused or cancelled before its first token: there is nothing to follow."""
        return self.over and all(t.depth == 0 for t in self.tracks.values())


class Scripts:
    """The scripts of all requests, in order of arrival. One object may serve many strategies."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self._seen: dict[str, SequenceView] = {}
        self._index = -1

    def record(
        self, index: int, sequences: tuple[SequenceView, ...], requests: Mapping[str, RequestView]
    ) -> None:
        """Take in the picture after step ``index`` (again: nothing happens)."""
        if index <= self._index:
            return
        self._index = index
        seen = self._seen
        changed = [view for view in sequences if seen.get(view.id) is not view]
        for view in changed:
            script = self.scripts.get(view.request)
            if script is None:
                request = requests[view.request]
                script = self.scripts[view.request] = Script(request, len(request.prompt_token_ids))
            seen[view.id] = view
            self._follow(script, view)

    def _follow(self, script: Script, view: SequenceView) -> None:
        depth = len(view.token_ids) - script.prompt
        track = script.tracks.get(view.id)
        if track is None:
            track = Track(view.id, view.parent, birth=0 if view.parent is None else depth)
            script.tracks[view.id] = track
            if track.birth:
                script.born.setdefault(track.birth, []).append(track)
        grew = depth > track.depth
        track.depth = depth
        script.depth = max(script.depth, depth)
        if depth == 0:
            script.prefilled = max(script.prefilled, view.written)
        if view.state == "finished" and track.end is None:
            # A sequence that sampled its last token ends at this depth. One that did not (a dropped beam, a
            # cancelled request) was alive at this depth already and is gone at the next.
            track.end = depth if grew else depth + 1
            track.final = max(view.written, script.prompt + depth - 1 if depth else 0)
            script.ends.setdefault(track.end, []).append(track)
            script.depth = max(script.depth, track.end)
