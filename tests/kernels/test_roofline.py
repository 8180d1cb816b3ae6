"""Bytes and operations by hand; a measurement that measures."""

from __future__ import annotations

import pytest
import torch

from kernels import roofline
from tests.kernels.cases import make_case


def test_work_by_hand() -> None:
    """30 + 10 keys, 9 query heads on 3 of width 64, fp32: 61,440 bytes and 92,160 operations."""
    found = roofline.work([30, 10], 9, 3, 64, 4)
    assert (found.bytes, found.operations, found.intensity) == (61440, 92160, 1.5)
    assert roofline.work([7], 8, 1, 128, 2).intensity == 8.0  # 2 * G / element_size


def test_a_small_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "COPY_BYTES", {"cpu": 1 << 20})
    monkeypatch.setattr(roofline, "MATRIX", {"cpu": 64})
    monkeypatch.setattr(roofline, "LONG", (2, 50))
    case = make_case([1, 1], [9, 5], kv_heads=2, group=3, dim=16)
    found = roofline.measure(case.q, case.k_cache, case.v_cache, case.batch, {"scale": 0.25, "window": 4})
    assert (found.device, found.this.keys, found.long.keys) == ("cpu", 8, 8)  # the window cuts both
    assert found.copy > 0 and found.peak > 0 and found.this.us > 0
    assert found.roof(1e9) == found.peak and found.roof(1e-9) == pytest.approx(found.copy * 1e-9)
    assert found.this.gflops == pytest.approx(found.this.work.operations / found.this.us / 1e3)


def test_seconds_leaves_the_first_call_out() -> None:
    calls = []
    roofline.seconds(lambda: calls.append(1), torch.device("cpu"), rounds=3)
    assert len(calls) == 4
