"""Which models there are, where their weights come from, text <-> tokens. Importing this imports no torch."""

from core.models.errors import FetchError, TermsNotAccepted, UnsupportedModel
from core.models.fetch import fetch
from core.models.load import load
from core.models.loaded import Geometry, LoadedModel
from core.models.registry import DEFAULT_MODEL, MODELS, ModelEntry
from core.models.tokens import Tokens

__all__ = [
    "DEFAULT_MODEL",
    "MODELS",
    "FetchError",
    "Geometry",
    "LoadedModel",
    "ModelEntry",
    "TermsNotAccepted",
    "Tokens",
    "UnsupportedModel",
    "fetch",
    "load",
]
