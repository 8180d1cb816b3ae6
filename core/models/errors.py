"""What can go wrong with a model, each with one sentence for the user."""

from __future__ import annotations


class FetchError(RuntimeError):
    """A model could not be fetched: no network, no space, a damaged file. Nothing half-written is used."""


class TermsNotAccepted(FetchError):
    """The model comes under terms of use that the user has not accepted yet."""


class UnsupportedModel(ValueError):
    """The paged store cannot serve this model; the sentence says what stands in the way."""
