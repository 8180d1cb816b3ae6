"""A model in memory, once a process: by packaged name, local folder or hub id, checked before it is used."""

from __future__ import annotations

import gc
import hashlib
import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from core.models.cache import Progress, silent
from core.models.convert import quiet
from core.models.download import sha256_of
from core.models.errors import UnsupportedModel
from core.models.fetch import fetch
from core.models.hub import snapshot
from core.models.loaded import LoadedModel, geometry_of, text_config
from core.models.registry import MODELS
from core.models.support import check_supported
from core.models.tokens import ModelTokens

DTYPES = ("float32", "bfloat16", "float16")
MAX_LOADED = 3  # models kept; of more, the one not asked for the longest is let go
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
PROBE = "The capital of France is"
# Of a model for pictures and text, only the text model is built: its weights' names inside and out.
OUT_OF_WRAPPER = {r"^language_model\.model\.": "model.", r"^model\.language_model\.": "model."}
FLAT = 1e-3  # logits of a model that is filled span several units


class Library:
    """The loaded models of a process. However many threads ask for one at once, it is loaded once."""

    def __init__(self, max_loaded: int = MAX_LOADED) -> None:
        self._max_loaded = max_loaded
        self._lock = threading.Lock()
        self._loading: dict[tuple[str, str, str], threading.Lock] = {}
        self._loaded: dict[tuple[str, str, str], LoadedModel] = {}  # least recently asked for first

    def get(
        self, key: tuple[str, str, str], make: Callable[[], LoadedModel], progress: Progress
    ) -> LoadedModel:
        """The model of this (name, dtype, device); ``make`` runs in one thread, the others wait for it."""
        with self._lock:
            turn = self._loading.setdefault(key, threading.Lock())
        if not turn.acquire(blocking=False):
            progress("wait", 0, 0)
            turn.acquire()
        try:
            with self._lock:
                model = self._loaded.pop(key, None)
            model = model or make()  # a failure is not kept: the next one tries again
            with self._lock:
                self._loaded[key] = model
                while len(self._loaded) > self._max_loaded:
                    self._loaded.pop(next(iter(self._loaded)))
            return model
        finally:
            turn.release()


# Weights are the one thing that all sessions of a process share.
_LIBRARY = Library()


def load(
    name_or_path: str | Path,
    *,
    dtype: str = "float32",
    device: str = "cpu",
    progress: Progress | None = None,
    accept_terms: bool = False,
) -> LoadedModel:
    """A packaged model by name, a local folder, or a hub id (``owner/name``); loaded once a process.

    Raises ValueError (a name that is none of these, an unknown dtype or device), `UnsupportedModel` and
    `FetchError`, each with one sentence.
    """
    progress = progress or silent
    device = _device(device, dtype)
    name = str(name_or_path)
    if name not in MODELS and Path(name).expanduser().is_dir():
        name = str(Path(name).expanduser().resolve())
    elif name not in MODELS and not HUB_ID.fullmatch(name):
        raise ValueError(
            f"there is no model {name!r}: it is no packaged model ({', '.join(MODELS)}), no folder, and no "
            f"hub id (owner/name)."
        )
    make = partial(_load, name, dtype, device, progress, accept_terms)
    return _LIBRARY.get((name, dtype, device), make, progress)


def _device(device: str, dtype: str) -> str:
    """The device as torch spells it; ValueError where it or the dtype is not to be had."""
    import torch

    if dtype not in DTYPES:
        raise ValueError(f"the dtype is {dtype!r}; it must be one of {', '.join(DTYPES)}.")
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"the device is {device!r}; it must be cpu, cuda or cuda:N.") from error
    if found.type == "cpu":
        return "cpu"
    count = torch.cuda.device_count() if found.type == "cuda" else 0
    if (found.index or 0) >= count:
        raise ValueError(f"the device is {device!r}, and torch finds {count} CUDA devices here; choose cpu.")
    return f"cuda:{found.index or 0}"


def _load(name: str, dtype: str, device: str, progress: Progress, accept_terms: bool) -> LoadedModel:
    """Find the folder, check the config, load, check the model."""
    import torch
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoTokenizer

    if name in MODELS:
        folder = fetch(name, progress, accept_terms)
    else:
        folder = Path(name) if Path(name).is_dir() else snapshot(name, progress)
    progress("load", 0, 1)
    with quiet():
        try:
            config = AutoConfig.from_pretrained(folder)
            check_supported(config)
            model = _module(folder, config, getattr(torch, dtype)).to(device)
            tokenizer = AutoTokenizer.from_pretrained(folder)
        except UnsupportedModel:
            raise
        except (OSError, ValueError, SafetensorError) as error:
            raise ValueError(f"the model in {name} cannot be read: {_first_line(error)}") from error
    check_supported(model)
    tokens = ModelTokens(tokenizer, text_config(model.config).vocab_size)
    loaded = LoadedModel(
        name=name if name in MODELS or not Path(name).is_dir() else Path(name).name,
        sha256=MODELS[name].gguf_sha256 if name in MODELS else _sha256_of_folder(folder, progress),
        model=model,
        tokens=tokens,
        geometry=geometry_of(model.config, dtype),
        eos_token_ids=eos_ids(tokenizer, model.config, model.generation_config),
        device=device,
    )
    check_filled(loaded)
    gc.collect()
    gc.freeze()  # a hundred thousand module objects that no later collection needs to walk
    progress("load", 1, 1)
    return loaded


def _module(folder: Path, config: Any, dtype: Any) -> Any:
    """The causal language model in eval mode; refused where a weight is not in the files."""
    from transformers import AutoModelForCausalLM

    text = text_config(config)
    model, info = AutoModelForCausalLM.from_pretrained(
        folder,
        config=text,
        dtype=dtype,
        key_mapping=None if text is config else OUT_OF_WRAPPER,
        output_loading_info=True,
        local_files_only=True,
    )
    lost = sorted(info["missing_keys"]) + sorted(str(key) for key in info["mismatched_keys"])
    if lost:
        raise UnsupportedModel(
            f"{len(lost)} weights of this model are not in its files ({lost[0]} for one); "
            f"they would be random, so the model is not used."
        )
    return model.eval().requires_grad_(False)


def eos_ids(tokenizer: Any, config: Any, generation_config: Any) -> frozenset[int]:
    """Every id that ends a text: what tokenizer, config and generation config say, together."""
    said = [tokenizer, config, text_config(config), generation_config]
    ids: set[int] = set()
    for source in said:
        eos = getattr(source, "eos_token_id", None)
        ids.update([eos] if isinstance(eos, int) else eos or ())
    return frozenset(ids)


def check_filled(loaded: LoadedModel) -> None:
    """Raise `UnsupportedModel` if the logits are not finite, or flat as those of an empty table."""
    import torch

    with loaded.lock, torch.inference_mode():
        ids = torch.tensor([loaded.tokens.encode(PROBE)], device=loaded.device)
        logits = loaded.model(input_ids=ids, use_cache=False).logits[0, -1].float()
    if not torch.isfinite(logits).all():
        raise UnsupportedModel(f"{loaded.name} gives logits that are not numbers; its weights are damaged.")
    if (spread := float(logits.max() - logits.min())) < FLAT:
        raise UnsupportedModel(
            f"{loaded.name} gives every token the same probability (logits differ by {spread:.1g}); its "
            f"output weights are not filled, so it is not used."
        )


def _sha256_of_folder(folder: Path, progress: Progress) -> str:
    """Of the weight files together, in the order of their names."""
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))
    digest = hashlib.sha256()
    for done, file in enumerate(files):
        progress("check", done, len(files))
        digest.update(bytes.fromhex(sha256_of(file)))
    return sha256_of(files[0]) if len(files) == 1 else digest.hexdigest()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".:") + "."
