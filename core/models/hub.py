"""A model by its hub id, through huggingface_hub: the environment variable HF_ENDPOINT chooses a mirror."""

from __future__ import annotations

from pathlib import Path

from core.models.cache import Progress
from core.models.errors import FetchError, UnsupportedModel
from core.models.support import check_supported

# Weights only as safetensors: the older format can carry code.
WANTED = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]


def snapshot(hub_id: str, progress: Progress) -> Path:
    """The folder of the hub's model, fetched unless it is in the hub's own cache.

    The config comes first: a model that cannot be served is refused (`UnsupportedModel`) before its weights
    are downloaded. Raises `FetchError` with one sentence where the hub is not reached or has no such model.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError
    from transformers import AutoConfig

    progress("download", 0, 0)
    try:
        check_supported(AutoConfig.from_pretrained(snapshot_download(hub_id, allow_patterns=["config.json"])))
        folder = Path(snapshot_download(hub_id, allow_patterns=WANTED))
    except UnsupportedModel:
        raise
    except GatedRepoError as error:
        raise FetchError(
            f"the hub gives {hub_id} only to accounts that have accepted its terms there."
        ) from error
    except RepositoryNotFoundError as error:
        raise FetchError(
            f"the hub has no model {hub_id}, or not for everyone; check the spelling."
        ) from error
    except Exception as error:  # what the hub's client raises without a network differs between its versions
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".:")
        raise FetchError(
            f"{hub_id} could not be fetched from the hub ({reason}); check the connection, set HF_ENDPOINT "
            f"to a mirror that you reach, or give a local folder."
        ) from error
    if not any(folder.glob("*.safetensors")):
        raise FetchError(
            f"{hub_id} has no weights in the safetensors format on the hub; only that one is read."
        )
    return folder
