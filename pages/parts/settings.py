"""What a live run is made of: values that survive a change of page, and what they mean to the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import streamlit as st

from core.config import EngineConfig, Sampling
from core.models.registry import DEFAULT_MODEL
from pages.parts.models import Wanted

DEFAULTS: Final[Mapping[str, Any]] = {
    "prompts": "The history of China is very",
    "max_new_tokens": 16,
    "block_size": 4,
    "num_blocks": 16,
    "mode": "greedy",  # greedy | sample | beam
    "n": 2,  # answers to each prompt, or the beam width
    "temperature": 0.8,
    "top_k": 0,
    "top_p": 1.0,
    "seed": 0,
    "length_penalty": 1.0,
    "early_stopping": False,
    "max_model_len": 32,
    "sharing": "copy-on-write",
    "prefix_cache": False,
    "preempt": "recompute",
    "host_blocks": 0,
    "max_batch_tokens": 2048,
    "watermark": 0,  # per cent of the pool
    "chat": False,
    "ignore_eos": False,
    "model": DEFAULT_MODEL,
    "other_model": "",
    "dtype": "float32",
    "device": "cpu",
    "lecture": False,  # larger text, for a projector
}
STRATEGIES: Final = ("reserve max", "doubling")  # contiguous, followed in lock-step for the strips
OTHER_MODEL: Final = "other"  # the choice under which a hub id or a folder is typed
_KEY: Final = "settings"


def values() -> dict[str, Any]:
    """This tab's settings. A dictionary of our own: a widget's value is forgotten when its page is left."""
    return st.session_state.setdefault(_KEY, dict(DEFAULTS))


def _store(name: str) -> None:
    values()[name] = st.session_state[f"set_{name}"]


def bind(name: str) -> dict[str, Any]:
    """Keyword arguments that tie a widget to the setting ``name``: its key and its callback."""
    key = f"set_{name}"
    if key not in st.session_state:
        st.session_state[key] = values()[name]
    return {"key": key, "on_change": _store, "args": (name,)}


def model_name(chosen: Mapping[str, Any]) -> str:
    """The registry name, hub id or folder that the settings ask for. Raises ValueError when it is empty."""
    if chosen["model"] != OTHER_MODEL:
        return chosen["model"]
    name = chosen["other_model"].strip()
    if not name:
        raise ValueError("The other model has no name: type a hub id such as Qwen/Qwen3-0.6B, or a folder.")
    return name


def wanted(chosen: Mapping[str, Any]) -> Wanted:
    """The model that the settings ask for. Raises ValueError when another one is asked for without a name."""
    return Wanted(model_name(chosen), chosen["dtype"], chosen["device"])


def engine_config(chosen: Mapping[str, Any]) -> EngineConfig:
    """The engine's configuration. Raises ValueError with one sentence that names the value and the limit."""
    return EngineConfig(
        block_size=chosen["block_size"],
        num_blocks=chosen["num_blocks"],
        max_model_len=chosen["max_model_len"],
        sharing=chosen["sharing"],
        prefix_cache=chosen["prefix_cache"],
        preempt=chosen["preempt"],
        host_blocks=chosen["host_blocks"],
        watermark=chosen["watermark"] / 100,
        max_batch_tokens=chosen["max_batch_tokens"],
        seed=chosen["seed"],
        strategies=STRATEGIES,
    )


def prompts(chosen: Mapping[str, Any]) -> list[str]:
    r"""One prompt a line; the characters ``\n`` stand for a line break. Raises ValueError without any."""
    lines = [line.strip().replace("\\n", "\n") for line in chosen["prompts"].splitlines()]
    found = [line for line in lines if line]
    if not found:
        raise ValueError("There is no prompt: write at least one line.")
    return found


def submission(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of ``Engine.submit`` that all prompts of this run have in common."""
    mode, n = chosen["mode"], chosen["n"]
    cut = {"top_k": chosen["top_k"], "top_p": chosen["top_p"]} if mode == "sample" else {}
    temperature = chosen["temperature"] if mode == "sample" else 0.0
    arguments: dict[str, Any] = {
        "max_new_tokens": chosen["max_new_tokens"],
        "chat": chosen["chat"],
        "ignore_eos": chosen["ignore_eos"],
        "sampling": Sampling(temperature=temperature, seed=chosen["seed"], **cut),
    }
    if mode == "beam":
        arguments |= {
            "beam": max(2, n),
            "length_penalty": chosen["length_penalty"],
            "early_stopping": chosen["early_stopping"],
        }
    elif mode == "sample":
        arguments["n"] = n
    return arguments
