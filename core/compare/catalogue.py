"""Well-known models and cards for the capacity calculator. Models: their own config.json; cards: the
vendors' data sheets (dense 16-bit operations)."""

from __future__ import annotations

from core.compare.capacity import GIB, Card, Shape


def _shape(
    name: str, billions: float, layers: int, kv_heads: int, head_dim: int, context: int,
    window: int | None = None, full_every: int = 0,
) -> Shape:  # fmt: skip
    """``full_every``: with a window, every so many-th layer sees all (0: none does)."""
    windows = tuple(
        None if window is None or (full_every and (layer + 1) % full_every == 0) else window
        for layer in range(layers)
    )
    return Shape(
        name=name, parameters=billions * 1e9, kv_heads=kv_heads, head_dim=head_dim, windows=windows,
        max_positions=context,
    )  # fmt: skip


MODELS: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        _shape("SmolLM2-135M", 0.1345, 30, 3, 64, 8192),
        _shape("GPT-2", 0.124, 12, 12, 64, 1024),
        _shape("Gemma 3 270M", 0.268, 18, 1, 256, 32768, window=512, full_every=6),
        _shape("Qwen2.5-0.5B", 0.494, 24, 2, 64, 32768),
        _shape("Qwen3-0.6B", 0.596, 28, 8, 128, 40960),
        _shape("Llama-2-7B", 6.74, 32, 32, 128, 4096),
        _shape("Mistral-7B v0.1", 7.24, 32, 8, 128, 32768, window=4096),
        _shape("Qwen2.5-7B", 7.62, 28, 4, 128, 32768),
        _shape("Llama-3.1-8B", 8.03, 32, 8, 128, 131072),
        _shape("OPT-13B", 13.0, 40, 40, 128, 2048),
        _shape("Llama-2-13B", 13.02, 40, 40, 128, 4096),
        _shape("gpt-oss-20b", 20.9, 24, 8, 64, 131072, window=128, full_every=2),
        _shape("Gemma 3 27B", 27.4, 62, 16, 128, 131072, window=1024, full_every=6),
        _shape("Qwen2.5-32B", 32.8, 64, 8, 128, 32768),
        _shape("OPT-66B", 66.0, 64, 72, 128, 2048),
        _shape("Llama-3.1-70B", 70.6, 80, 8, 128, 131072),
        _shape("OPT-175B", 173.0, 96, 96, 128, 2048),
    )
}

CARDS: dict[str, Card] = {
    card.name: card
    for card in (
        Card(name="T4 16GB", memory=16 * GIB, bandwidth=0.320e12, flops=65e12),
        Card(name="RTX 4090 24GB", memory=24 * GIB, bandwidth=1.008e12, flops=165e12),
        Card(name="L4 24GB", memory=24 * GIB, bandwidth=0.300e12, flops=121e12),
        Card(name="A100-40GB", memory=40 * GIB, bandwidth=1.555e12, flops=312e12),
        Card(name="A100-80GB", memory=80 * GIB, bandwidth=2.039e12, flops=312e12),
        Card(name="H100-80GB", memory=80 * GIB, bandwidth=3.350e12, flops=989e12),
        Card(name="H200 141GB", memory=141e9, bandwidth=4.800e12, flops=989e12),
        Card(name="B200 192GB", memory=192e9, bandwidth=8.000e12, flops=2250e12),
    )
}
