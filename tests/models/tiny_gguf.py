"""A tiny random Qwen2 model as a GGUF file, written here: no download."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf

from tests.tiny import BOS, EOS, VOCAB_SIZE, tiny_module, tiny_tokenizer


def write_tiny_gguf(path: Path) -> Any:
    """Write the file with tied embeddings, in float32, and return the module that it was made from."""
    model = tiny_module("qwen2")
    config, arch = model.config, "qwen2"
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name("tiny")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    # A GGUF vocabulary needs at least one merge: the last word becomes "ab".
    words = [*tiny_tokenizer().convert_ids_to_tokens(range(VOCAB_SIZE - 1)), "ab"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    writer.add_token_types([1] * 256 + [3] * (VOCAB_SIZE - 257) + [1])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name != "lm_head.weight":  # tied
            stem, _, kind = name.rpartition(".")
            writer.add_tensor(f"{names.get_name(stem)}.{kind}", tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model
