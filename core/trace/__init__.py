"""Traces: what a live engine records and every page draws. Pure Python."""

from core.trace.file import MAX_BYTES, TraceError, load, save, to_bytes
from core.trace.replay import Replay, replay
from core.trace.step import Step, Trace
from core.trace.verify import Violation, first_difference, same_but_for_times, verify, verify_step

__all__ = [
    "MAX_BYTES",
    "Replay",
    "Step",
    "Trace",
    "TraceError",
    "Violation",
    "first_difference",
    "load",
    "replay",
    "same_but_for_times",
    "save",
    "to_bytes",
    "verify",
    "verify_step",
]
