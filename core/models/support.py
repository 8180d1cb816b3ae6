"""Which architectures the paged store cannot serve, by name and with the reason.

The store takes each layer's new keys and values through transformers' attention interface. A model that
does not call it for every layer with its own keys and values, or whose layers see something else than all
past tokens or a window of them, would give wrong answers without a word; so it is refused here.
"""

from __future__ import annotations

from typing import Any

from core.models.errors import UnsupportedModel
from core.models.loaded import text_config

LAYER_TYPES = frozenset({"full_attention", "sliding_attention"})

_ALIBI = "it adds its positions to the attention scores (ALiBi), which the attention interface does not carry"
_OWN = "its attention does not go through the attention interface, so the store would never be asked"
_STATE = "it keeps a recurrent state beside or instead of keys and values, and that has no blocks to page"
_SHARED = "some of its layers read the keys and values of another layer and bring none of their own"
_CHUNKED = "its layers see chunks of the text, which is neither all past tokens nor a window of them"
_AHEAD = "its tokens see the tokens after them, so keys and values change with every new token"
_LATENT = (
    "it caches compressed (latent) keys and values, so those that it hands over differ in their head size"
)

# By model type, where the config's fields alone do not tell.
REFUSED: dict[str, str] = {
    "bloom": _ALIBI,
    "mpt": _ALIBI,
    "falcon": _OWN,
    "gpt_neo": _OWN,
    "stablelm": _OWN,
    "llama4": _CHUNKED,
    "llama4_text": _CHUNKED,
    "gemma3n": _SHARED,
    "gemma3n_text": _SHARED,
    "gemma4": _SHARED,
    "gemma4_text": _SHARED,
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "minicpm3", "longcat_flash"), _LATENT),
    **dict.fromkeys(
        ("mamba", "mamba2", "falcon_mamba", "falcon_h1", "rwkv", "xlstm", "recurrent_gemma"), _STATE
    ),
    **dict.fromkeys(("jamba", "bamba", "zamba", "zamba2", "nemotron_h", "granitemoehybrid"), _STATE),
    **dict.fromkeys(("lfm2", "lfm2_moe", "qwen3_next", "qwen3_5", "qwen3_5_text", "minimax"), _STATE),
}
# By a field of the config that is set.
_FIELDS = {
    "alibi": _ALIBI,
    "kv_lora_rank": _LATENT,
    "num_kv_shared_layers": _SHARED,
    "attention_chunk_size": _CHUNKED,
    "layers_block_type": _STATE,
    "ssm_cfg": _STATE,
    "mamba_d_state": _STATE,
    "state_size": _STATE,
    "use_bidirectional_attention": _AHEAD,
}


def check_supported(config_or_model: Any) -> None:
    """Raise `UnsupportedModel`, with one sentence, for a model or config that the paged store cannot serve.

    A config is known before the weights are there; what only the model can tell is asked of a model.
    """
    config = getattr(config_or_model, "config", config_or_model)
    if reason := _reason(config):
        raise UnsupportedModel(f"{_name(config)} cannot be paged here: {reason}.")
    if config is not config_or_model and (reason := _reason_of_model(config_or_model)):
        raise UnsupportedModel(f"{_name(config)} cannot be paged here: {reason}.")


def _name(config: Any) -> str:
    """The architecture, as its authors spell it where the config says so."""
    names = getattr(config, "architectures", None)
    return f"{names[0]} ({config.model_type})" if names else str(config.model_type)


def _reason(config: Any) -> str | None:
    """Why a model with this config is refused, or None."""
    if getattr(config, "is_encoder_decoder", False):
        return "it is an encoder-decoder, whose cross-attention keys do not grow with the text"
    text = text_config(config)
    for kind in (config.model_type, text.model_type):
        if kind in REFUSED:
            return REFUSED[kind]
    for field, reason in _FIELDS.items():
        if _is_set(text, field):
            return reason
    if odd := set(getattr(text, "layer_types", None) or ()) - LAYER_TYPES:
        served = " and ".join(sorted(LAYER_TYPES))
        return f"it has layers of type {', '.join(sorted(odd))}, and only {served} are served"
    if "sliding_attention" in (getattr(text, "layer_types", None) or ()) and not text.sliding_window:
        return "it has sliding layers and its config gives no window"
    if not hasattr(text, "num_attention_heads") or not hasattr(text, "num_hidden_layers"):
        return "its config tells no number of attention heads and layers"
    return None


def _is_set(config: Any, field: str) -> bool:
    """Whether the field is there and not 0, False or None; a field that differs between layers is set."""
    try:
        return bool(getattr(config, field, None))
    except Exception:  # transformers' error for such a field, AmbiguousGlobalPerLayerAttributeError, is new
        return True


def _reason_of_model(model: Any) -> str | None:
    """Why the loaded model is refused, or None."""
    if not model.is_backend_compatible():
        return _OWN
    if any(getattr(m, "is_causal", True) is False and hasattr(m, "layer_idx") for m in model.modules()):
        return _AHEAD
    if not model.can_generate():
        return "it predicts no next token"
    return None
