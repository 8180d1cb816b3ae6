"""What a comparison says: one sentence above the picture, one note beside each strip. Pure."""

from __future__ import annotations

from core.compare.lockstep import PAGED
from core.compare.report import StepReport
from core.memory import events as ev
from core.memory.strips import Stopped, Waiting
from core.trace.step import Trace
from pages.parts.compare_run import Choices, Reports
from pages.parts.labels import letter
from pages.parts.say import strategy_name
from pages.parts.words import t


class Names:
    """What the sequences and requests of a trace are called: letters in order of creation."""

    def __init__(self, trace: Trace, lang: str) -> None:
        self.lang = lang
        views = trace.steps[-1].sequences if trace.steps else ()
        self.places = {view.id: place for place, view in enumerate(views)}
        self._of_request: dict[str, list[int]] = {}
        for view in views:
            self._of_request.setdefault(view.request, []).append(self.places[view.id])

    def sequence(self, name: str) -> str:
        """The letter of a sequence; its id when the trace does not know it."""
        return letter(self.places[name]) if name in self.places else name

    def who(self, waiting: Waiting) -> str:
        """Who waits: the letter of one sequence, or the letters of a request's sequences."""
        if waiting.growing or waiting.request not in self._of_request:
            return self.sequence(waiting.sequence)
        letters = [letter(place) for place in self._of_request[waiting.request]]
        return "+".join(letters[:3]) + ("+…" if len(letters) > 3 else "")


def why(waiting: Waiting, names: Names) -> str:
    """What waits and why, with its numbers."""
    reason = waiting.reason
    if reason not in ("full", "fragmented", "next"):
        return t(
            "compare.why.other", names.lang, who=names.who(waiting), need=waiting.need, have=waiting.free
        )
    if reason == "fragmented" and waiting.runs > 1:
        reason = "fragmented_runs"
    if waiting.growing and reason != "next":
        reason += "_growing"
    need = waiting.need if "fragmented" in reason else waiting.need * waiting.runs
    return t(
        f"compare.why.{reason}", names.lang, who=names.who(waiting), need=need, runs=waiting.runs,
        free=waiting.free, longest=waiting.longest,
    )  # fmt: skip


def stopped_now(report: StepReport, index: int) -> list[Stopped]:
    """Sequences that had to stop in this very step."""
    return [stop for stop in report.stopped if stop.step == index]


def note(name: str, report: StepReport, names: Names, index: int | None = None) -> str:
    """What a strategy pays just now: who stopped, who waits and why, what moved; else what is left."""
    lang = names.lang
    if index is not None and (stops := stopped_now(report, index)):
        return stop_text(stops[0], names)
    if report.waiting is not None:
        return why(report.waiting, names)
    grown = [event for event in report.events if isinstance(event, ev.Grow)]
    if grown and name != "grow by one":
        event = grown[0]
        return t("compare.moved", lang, who=names.sequence(event.sequence), n=event.copied,
                 old=event.old_length, new=event.length)  # fmt: skip
    if name == "no cache":
        return t("compare.no_cache", lang, n=report.recomputed)
    if grown:
        return t("compare.moved.all", lang, n=sum(event.copied for event in grown))
    return t("compare.left", lang, n=report.usage.free + report.usage.external)


def stop_text(stop: Stopped, names: Names) -> str:
    """Why a sequence ended early."""
    reason = stop.reason.replace(" ", "_")
    return t(
        f"compare.stop.{reason}", names.lang, who=names.sequence(stop.sequence), need=stop.need,
        free=stop.free, longest=stop.longest, written=stop.written,
    )  # fmt: skip


def sentence(trace: Trace, reports: Reports, index: int, choices: Choices, names: Names) -> list[str]:
    """[headline, text]: how many run under the best and the worst, and the one thing worth saying."""
    step, lang = reports[index], names.lang
    running = {name: r.usage.running for name, r in step.items() if name != "no cache" or len(step) == 1}
    best = max(running, key=lambda name: (running[name], name == PAGED))
    worst = min(running, key=lambda name: (running[name], name == PAGED))
    if running[best] == running[worst]:
        head = t("compare.same", lang, n=running[best])
    else:
        head = t(
            "compare.head", lang, best=strategy_name(best, lang), n=running[best],
            worst=strategy_name(worst, lang), m=running[worst],
        )  # fmt: skip
    return [head, _told(step, index, choices, trace, names)]


def _told(step: dict[str, StepReport], index: int, choices: Choices, trace: Trace, names: Names) -> str:
    lang = names.lang
    compacted = {name: report.compacted for name, report in step.items() if report.compacted}
    if index in choices.compacted:
        return _compaction(compacted, int(trace.meta.get("bytes_per_token") or 0), lang)
    for name, report in step.items():
        if stops := stopped_now(report, index):
            return f"{strategy_name(name, lang)}{_colon(lang)}{stop_text(stops[0], names)}"
    for reason in ("fragmented", "full"):
        for name, report in step.items():
            if report.waiting is not None and report.waiting.reason == reason:
                return f"{strategy_name(name, lang)}{_colon(lang)}{why(report.waiting, names)}"
    return ""


def _colon(lang: str) -> str:
    return "：" if lang == "zh" else ": "


def _compaction(compacted: dict[str, int], bytes_per_token: int, lang: str) -> str:
    if not compacted:
        return t("compare.compacted.nothing", lang)
    comma = "，" if lang == "zh" else ", "
    costs = [
        t("compare.compacted.cost", lang, name=strategy_name(name, lang), n=tokens,
          mb=megabytes(tokens * bytes_per_token))
        for name, tokens in compacted.items()
    ]  # fmt: skip
    return t("compare.compacted", lang, costs=comma.join(costs))


def megabytes(count: float) -> str:
    """Bytes as megabytes, with as many places as tell something."""
    value = count / 1e6
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 0.95 else f"{value:.2g}"
