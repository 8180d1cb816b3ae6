"""GGUF -> a folder of safetensors, tokenizer and config, once: GGUF takes a minute to read, this a second.

Float32, though it is five times the size of the file: a weight of the file is a small integer times a
16-bit scale plus a 16-bit offset, and neither bfloat16 nor float16 holds that product. bfloat16 is made
from it on loading.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.models.cache import Progress
from core.models.errors import FetchError

CONVERTER_VERSION = 1  # a folder of another version is made anew
STEPS = 4
PROBE = "Hello world! Café déjà vu — 123 😊\n\n  def f(x):\treturn x  中国的历史非常悠久 👨‍👩‍👧‍👦 ďábelské"


def convert(gguf: Path, folder: Path, progress: Progress) -> None:
    """Write the model in the file ``gguf`` to ``folder``, which is made. Progress counts ``STEPS`` steps.

    FetchError if a weight is missing from the file, or the saved tokenizer splits text in another way.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    progress("convert", 0, STEPS)
    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        tokenizer.save_pretrained(folder)
        progress("convert", 1, STEPS)
        if AutoTokenizer.from_pretrained(folder).encode(PROBE) != tokenizer.encode(PROBE):
            raise FetchError("the model's tokenizer changed in conversion; the model is not used.")
        progress("convert", 2, STEPS)
        model, info = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.float32, output_loading_info=True
        )
        if lost := sorted(info["missing_keys"]) + sorted(map(str, info["mismatched_keys"])):
            raise FetchError(
                f"the model's file lacks {len(lost)} weights, {lost[0]} for one; it is not used."
            )
        progress("convert", 3, STEPS)
        _plain(model).save_pretrained(folder)
        progress("convert", 4, STEPS)


def _plain(model: Any) -> Any:
    """The same weights in a model that knows nothing of GGUF: saved and loaded like any other."""
    import torch

    config = copy.deepcopy(model.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.device("meta"):  # no second copy of the weights
        plain = type(model)(config)
    plain.load_state_dict(model.state_dict(), assign=True)
    plain.tie_weights()  # tied embeddings are saved once
    plain.generation_config = model.generation_config
    return plain


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' own progress bars and reports: the app has its own."""
    from transformers.utils import logging

    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
