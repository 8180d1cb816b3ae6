"""What the paged store cannot serve is refused by name and with the reason."""

from __future__ import annotations

import pytest
import transformers

from core.models import UnsupportedModel, load
from core.models.loaded import geometry_of, windows_of
from core.models.support import check_supported
from tests.tiny import (
    ARCHITECTURES,
    BOS,
    EOS,
    PAD,
    VOCAB_SIZE,
    save_tiny,
    tiny_config,
    tiny_module,
    tiny_tokenizer,
)

SERVED = ["Gemma2Config", "GptOssConfig", "GPTNeoXConfig", "OPTConfig", "PhiConfig", "Phi3Config"]
SERVED += ["Olmo2Config", "SmolLM3Config", "GraniteConfig", "Glm4Config", "CohereConfig", "Starcoder2Config"]
REFUSED = {
    "BloomConfig": "ALiBi",
    "MptConfig": "ALiBi",
    "FalconConfig": "attention interface",
    "GPTNeoConfig": "attention interface",
    "StableLmConfig": "attention interface",
    "Llama4TextConfig": "chunks",
    "Gemma3nTextConfig": "another layer",
    "DeepseekV3Config": "latent",
    "MambaConfig": "recurrent state",
    "JambaConfig": "recurrent state",
    "Qwen3NextConfig": "recurrent state",
    "T5Config": "encoder-decoder",
    "BartConfig": "encoder-decoder",
}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_tiny_models_are_served(arch):
    check_supported(tiny_config(arch))
    check_supported(tiny_module(arch))


@pytest.mark.parametrize("name", SERVED)
def test_served(name):
    check_supported(getattr(transformers, name)())


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_refused_with_the_reason(name, reason):
    config = getattr(transformers, name)()
    with pytest.raises(UnsupportedModel, match=reason) as error:
        check_supported(config)
    text = str(error.value)
    assert text.startswith(config.model_type) and text.endswith(".") and "\n" not in text


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"layer_types": ["full_attention", "chunked_attention"]}, "type chunked_attention"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "type linear_attention"),
        ({"num_kv_shared_layers": 2}, "another layer"),
        ({"kv_lora_rank": 16}, "latent"),
        ({"attention_chunk_size": 8}, "chunks"),
        ({"alibi": True}, "ALiBi"),
        ({"use_bidirectional_attention": True}, "after them"),
    ],
)
def test_refused_by_a_field_of_the_config(changes, reason):
    config = tiny_config("llama")
    for field, value in changes.items():
        setattr(config, field, value)
    with pytest.raises(UnsupportedModel, match=reason):
        check_supported(config)


def test_a_model_that_looks_ahead_is_refused():
    config = transformers.BertConfig(
        vocab_size=99, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    with pytest.raises(UnsupportedModel, match=r"bert .*after them"):
        check_supported(transformers.BertLMHeadModel(config))


def test_a_folder_is_refused_before_its_weights_are_read(tmp_path):
    config = transformers.BloomConfig(architectures=["BloomForCausalLM"])
    config.save_pretrained(tmp_path)  # no weights at all
    with pytest.raises(UnsupportedModel, match=r"BloomForCausalLM \(bloom\) cannot be paged here"):
        load(tmp_path)


def test_of_a_model_for_pictures_and_text_the_text_model_is_taken(tmp_path):
    import torch

    vision = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.Gemma3Config(
        text_config=tiny_config("gemma3_text").to_dict(),
        vision_config={**vision, "image_size": 28, "patch_size": 14},
        mm_tokens_per_image=1,
        **{"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD},
    )
    whole = transformers.Gemma3ForConditionalGeneration(config).eval()
    with torch.no_grad():  # its random weights are too small for logits that differ
        for weight in whole.parameters():
            weight.mul_(5)
    whole.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    loaded = load(tmp_path)
    ids = torch.tensor([[1, 2, 3, 4]])
    assert type(loaded.model).__name__ == "Gemma3ForCausalLM"
    assert torch.equal(loaded.model(ids).logits, whole(input_ids=ids).logits)
    assert (loaded.geometry.layers, loaded.geometry.vocab_size) == (3, VOCAB_SIZE)


def test_head_dim_is_the_configs_own():
    assert geometry_of(transformers.Qwen3Config(), "float32").head_dim == 128
    assert geometry_of(transformers.GPT2Config(), "float32").head_dim == 64
    assert geometry_of(transformers.Gemma3TextConfig(), "float32").head_dim == 256


def test_windows():
    off = transformers.Qwen2Config(num_hidden_layers=2, use_sliding_window=False, sliding_window=99)
    assert windows_of(off) == (None, None)
    every = transformers.MistralConfig(num_hidden_layers=2, sliding_window=99)
    assert windows_of(every) == (99, 99)
    gemma2 = transformers.Gemma2Config(num_hidden_layers=4, sliding_window=7)
    assert windows_of(gemma2) == (7, None, 7, None)


def test_lengths_at_which_rotary_frequencies_would_change_are_not_reached():
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 6, "long_factor": [2.0] * 6}
    config = tiny_config("llama", rope_parameters={**rope, "original_max_position_embeddings": 64})
    assert geometry_of(config, "float32").max_positions == 64
    assert geometry_of(tiny_config("llama"), "float32").max_positions == 512


def test_a_saved_folder_with_a_refused_layer_type(tmp_path):
    folder = save_tiny(tmp_path / "m", "qwen3")
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"full_attention"', '"chunked_attention"'))
    with pytest.raises((UnsupportedModel, ValueError), match="chunked_attention"):
        load(folder)
