"""Tiny random models of the architectures that the app serves: made on the spot, no download.

Weights are drawn wider than a real model's (std 0.25), so that logits are far from flat and greedy paths vary
with the prompt. One byte of text is one token.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from core.models.loaded import LoadedModel, geometry_of
from core.models.tokens import Tokens

BOS, EOS, PAD = 256, 257, 258
VOCAB_SIZE = 259
WINDOW = 8
ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3_text", "mistral", "gpt2")


class ByteTokens(Tokens):
    """Ids 0 to 255 are bytes; then <bos>, <eos>, <pad>. Only an empty text gets the <bos>."""

    def encode(self, text: str, chat: bool = False) -> list[int]:
        if chat:
            raise ValueError("this model has no chat template; hand in the plain text.")
        return list(text.encode()) or [BOS]

    def token_bytes(self, token_id: int) -> bytes:
        names = {BOS: b"<bos>", EOS: b"<eos>", PAD: b"<pad>"}
        return bytes([token_id]) if token_id < 256 else names[token_id]

    def is_special(self, token_id: int) -> bool:
        return token_id >= 256


def tiny_config(arch: str, **changes: Any) -> Any:
    """The config of a tiny model: 3 layers, 4 query heads, 2 KV heads (GPT-2: 4), 256 positions and more."""
    common = {"vocab_size": VOCAB_SIZE, "bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD}
    shape = {
        "hidden_size": 48,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
        "initializer_range": 0.25,
    }
    own: dict[str, dict[str, Any]] = {
        "llama": {},
        "qwen2": {},
        "qwen3": {"head_dim": 16},  # not hidden / heads, as in the real one
        "gemma3_text": {
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "sliding_window": WINDOW,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        },
        "mistral": {"head_dim": 12, "sliding_window": WINDOW},
    }
    if arch == "gpt2":
        gpt2 = {"n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 512, "initializer_range": 0.25}
        return transformers.GPT2Config(**common, **gpt2, **changes)
    classes = {"gemma3_text": "Gemma3TextConfig"}
    config_class = getattr(transformers, classes.get(arch, f"{arch.capitalize()}Config"))
    return config_class(**{**common, **shape, **own[arch], **changes})


def tiny_module(arch: str, *, seed: int = 0, dtype: str = "float32", **changes: Any) -> Any:
    """The transformers module alone, in eval mode; the caller's random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(tiny_config(arch, **changes))
    return model.to(getattr(torch, dtype)).eval().requires_grad_(False)


def tiny_model(arch: str, *, seed: int = 0, dtype: str = "float32", **changes: Any) -> LoadedModel:
    """A LoadedModel with ByteTokens. ``changes`` go into the config: ``num_hidden_layers=1``, for one."""
    model = tiny_module(arch, seed=seed, dtype=dtype, **changes)
    return LoadedModel(
        name=f"tiny-{arch}",
        sha256=f"tiny-{arch}-{seed}",
        model=model,
        tokens=ByteTokens(),
        geometry=geometry_of(model.config, dtype),
        eos_token_ids=frozenset({EOS}),
        device="cpu",
    )


def tiny_tokenizer(chat_template: str | None = None) -> Any:
    """A transformers tokenizer with the ids of ByteTokens: byte-level BPE without merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    # GPT-2's printable alphabet for bytes, in the order of the bytes.
    shown = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
    hidden = [b for b in range(256) if b not in shown]
    letters = {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(hidden)}
    core = Tokenizer(models.BPE(vocab={letters[b]: b for b in range(256)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    names = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"}
    core.add_special_tokens(list(names.values()))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=core, **names)
    tokenizer.chat_template = chat_template
    return tokenizer


def save_tiny(folder: Path, arch: str, *, chat_template: str | None = None, **changes: Any) -> Path:
    """Save a tiny model and its tokenizer to ``folder``, as a user's local model would lie there."""
    tiny_module(arch, **changes).save_pretrained(folder)
    tiny_tokenizer(chat_template).save_pretrained(folder)
    return folder
