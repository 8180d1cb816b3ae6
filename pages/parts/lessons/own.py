"""The lesson on one's own prompt: the scenario's requests and rules, other words, another block size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from core.config import MAX_BLOCK_SIZE
from core.scenarios import SCENARIOS, Scenario
from core.trace.step import Step, Trace
from pages.parts import live
from pages.parts.gates import Question, planned
from pages.parts.lessons import runs
from pages.parts.lessons.lesson import Lesson
from pages.parts.lessons.state import SKIPPED, Study
from pages.parts.lessons.walk import Place, Way, forward
from pages.parts.models import Wanted
from pages.parts.words import t

MOST_STEPS = 256  # of one click: enough for every lesson, and the page comes back
PATIENCE = 10.0  # seconds for one step
MAX_LEN = 256
FIELDS = ("own_prompts", "own_size", "own_blocks")


def wish(scenario: Scenario, prompts: list[str], block_size: int, num_blocks: int) -> live.Wish:
    """The scenario with these prompts: the k-th has the options of its k-th request, further ones the last's.

    Raises ValueError without a prompt, or for a size that the engine does not take.
    """
    if not prompts:
        raise ValueError("There is no prompt: write at least one line.")
    options = scenario.requests
    requests = tuple({**options[min(k, len(options) - 1)], "prompt": text} for k, text in enumerate(prompts))
    config = replace(
        scenario.config, block_size=block_size, num_blocks=num_blocks, max_model_len=MAX_LEN, free_order=None,
        host_blocks=num_blocks if scenario.config.host_blocks else 0,
    )  # fmt: skip
    return live.Wish(Wanted(scenario.model), config, requests)


def scenario_of(lesson: Lesson) -> Scenario | None:
    """The scenario that one's own prompt takes the rules of; None where the lesson has no live run."""
    return SCENARIOS.get(lesson.stops[0].run) if lesson.own else None


def _prompts(scenario: Scenario) -> str:
    return "\n".join(str(request["prompt"]) for request in scenario.requests)


def _fill_in(lesson: str, scenario: Scenario) -> None:
    """What was last written for this lesson, else the scenario's own values: the fields' keys are gone as
    soon as the popover is closed."""
    state = st.session_state
    if state.get("own_for") != lesson:
        first = (_prompts(scenario), scenario.config.block_size, scenario.config.num_blocks)
        state.own_for, state.own_kept = lesson, dict(zip(FIELDS, first, strict=True))
        state.update(state.own_kept)
    for name in FIELDS:
        state.setdefault(name, state.own_kept[name])


def _keep() -> None:
    state = st.session_state
    state.own_kept = {name: state[name] for name in FIELDS}


def _begin(study: Study, scenario: Scenario) -> None:
    lines = [line.strip() for line in st.session_state.own_prompts.splitlines()]
    numbers = st.session_state.own_size, st.session_state.own_blocks
    try:
        asked = wish(scenario, [line for line in lines if line], *numbers)
    except ValueError as error:
        live.run().notices = [str(error)]
        return
    live.begin(asked)
    st.session_state.own = False  # the popover has done its work
    study.live, study.place, study.selected = True, Place(), None
    study.answers = {key: value for key, value in study.answers.items() if key[1] != "live"}


def _recorded(study: Study) -> None:
    st.session_state.own = False
    study.live, study.place, study.selected = False, Place(), None


def controls(study: Study, lang: str) -> None:
    """A popover: prompts, block size, pool; one button that begins, one that goes back to the recording."""
    scenario = scenario_of(study.lesson)
    if scenario is None:
        return
    # Its being open is state of the server (that is what "rerun" buys), so that starting a run can close it.
    panel = st.popover(t("lessons.own", lang), icon=":material/edit:", key="own", on_change="rerun")
    if not panel.open:
        return
    with panel:
        st.caption(t("lessons.own.help", lang))
        _fill_in(study.id, scenario)
        st.text_area(t("set.prompts", lang), key="own_prompts", height=100, on_change=_keep)
        left, right = st.columns(2)
        left.number_input(t("set.block_size", lang), 1, MAX_BLOCK_SIZE, key="own_size", on_change=_keep)
        right.number_input(t("set.num_blocks", lang), 1, 4096, key="own_blocks", on_change=_keep)
        with st.container(horizontal=True):
            st.button(
                t("lessons.own.start", lang), key="own_start", type="primary", on_click=_begin,
                args=(study, scenario),
            )  # fmt: skip
            if study.live:
                again = t("lessons.own.recorded", lang)
                st.button(again, key="own_recorded", on_click=_recorded, args=(study,))


# -- walking along a run that is still being made ------------------------------------------------------------


def way(lesson: Lesson) -> Way | None:
    """The stops of the live run so far; None while there is none."""
    trace = live.trace()
    if trace is None or not trace.steps:
        return None
    return runs.live_way(lesson, trace, open_=live.can_step())


def ahead(lesson: Lesson, trace: Trace) -> tuple[int, tuple[Any, ...]] | None:
    """The stop that the coming step will be, and the events planned for it; None when it will be none."""
    session = live.run().session
    plan = session.plan() if session is not None and session.has_work else None
    if plan is None or not trace.steps:
        return None
    last = trace.steps[-1]
    step = Step(
        index=plan.index, kind=plan.kind, events=plan.events, sequences=last.sequences, blocks=last.blocks,
        usage=last.usage,
    )  # fmt: skip
    tried = Trace(meta=trace.meta, requests=trace.requests, steps=[*trace.steps, step], tokens=trace.tokens)
    located = runs.live_way(lesson, tried, open_=True).stops
    before = runs.live_way(lesson, trace, open_=True).stops
    here = [n for n, (_, at) in enumerate(located) if at == len(trace.steps) and before[n][1] is None]
    return (here[0], plan.events) if here else None


def question(study: Study, lang: str) -> Question | None:
    """What to ask before the coming live step, where the place is just past the run's end."""
    trace = live.trace()
    if trace is None or study.place.step != len(trace.steps):
        return None
    found = ahead(study.lesson, trace)
    gate = study.lesson.stops[found[0]].gate if found and found[0] == study.place.stop else None
    return gate(planned(trace, found[1], lang)) if gate and found else None


def go_on(study: Study, lang: str) -> None:
    """Right in a live run: along what is there, else let the engine go on to the next stop (or step)."""
    found = way(study.lesson)
    if found is None:
        return
    following = forward(found, study.place, study.pace)
    if following != study.place:
        study.place = following
        return
    for _ in range(MOST_STEPS):
        trace = live.trace()
        if trace is None or not live.can_step():
            break
        coming = ahead(study.lesson, trace)
        if coming and study.gates and _asks(study, trace, coming, lang):
            study.place = Place(coming[0], len(trace.steps))
            return
        if not make_step(study) or study.pace != "stops" or _arrived(study):
            return
    closing = way(study.lesson)
    if closing is not None:
        study.place = forward(closing, study.place, "stops")


def _asks(study: Study, trace: Trace, coming: tuple[int, tuple[Any, ...]], lang: str) -> bool:
    gate = study.lesson.stops[coming[0]].gate
    open_ = study.answers.get(study.key(coming[0])) is None
    return gate is not None and open_ and gate(planned(trace, coming[1], lang)) is not None


def make_step(study: Study) -> bool:
    """Let the engine run one step and go to it; False when it takes too long (the page polls then)."""
    session = live.run().session
    if session is None:
        return False
    try:
        session.request_step()
    except RuntimeError as error:  # the pool has been given back
        live.run().notices = [str(error)]
        return False
    done = session.wait(PATIENCE)
    found = way(study.lesson)
    if found is not None:
        study.place = found.near(study.place, len(session.trace.steps) - 1)
        here = [n for n, (_, at) in enumerate(found.stops) if at == study.place.step]
        if here:
            study.place = Place(here[0], study.place.step)
    return done


def _arrived(study: Study) -> bool:
    found = way(study.lesson)
    return found is not None and found.on_stop(study.place)


def skip(study: Study) -> None:
    """No answer: the step is made and shown."""
    answer(study, SKIPPED)


def answer(study: Study, given: Any) -> None:
    """Note the prediction for the coming live step, then make it."""
    study.answers[study.key(study.place.stop)] = given
    make_step(study)
