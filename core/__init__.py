"""A real language model's KV memory, paged, recorded step by step."""

__version__ = "0.1.0"
