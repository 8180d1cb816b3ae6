"""What the engine refuses or reports, each with one sentence for whoever asked."""

from __future__ import annotations


class RequestRefused(ValueError):
    """A request that cannot be served; nothing of it has reached the engine."""


class PoolTooLarge(ValueError):
    """A KV pool that does not fit in the memory of its device or of the host, or under a cap."""


class BridgeError(RuntimeError):
    """The model did not run through the paged attention as it must; its logits cannot be trusted."""


class SessionClosed(RuntimeError):
    """The session has given its pool back; a new one has to be opened."""
