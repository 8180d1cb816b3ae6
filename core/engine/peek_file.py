"""A recorded peek: the tensors of one decode step in a few layers, with the trace of the run that led to it.

    python -m core record kernel-page        runs ``REQUEST`` on the real model and writes PEEK_FILE again

A NumPy archive without pickled objects. Block tables, tokens and lengths are the trace's; beside it lie the
queries, outputs, keys and values, in fp32 as they were computed. Only slots that the step reads are kept: all
else in the pool is NaN when it is read back, so a result that touched anything else would show it.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from core.config import EngineConfig, Sampling
from core.engine.peek import Peek
from core.engine.plan import Scheduled
from core.models.loaded import Geometry
from core.trace import TraceError, load, save
from core.trace.step import Trace
from kernels import PagedBatch

if TYPE_CHECKING:
    from core.models.loaded import LoadedModel

PEEK_FILE = Path(__file__).resolve().parents[2] / "assets" / "kernel" / "opening.npz"
MAX_BYTES = 16 << 20  # unpacked
CONFIG = EngineConfig(block_size=4, num_blocks=64, max_model_len=128)
STEPS = 8  # the prompt, then seven decode steps
REQUEST: dict[str, Any] = {
    "prompt": "An operating system keeps a table for every program. The table says where each page of the "
    "program's memory lies, so that pages need not be neighbours. A page fault",
    "max_new_tokens": 24,
    "n": 2,
    "sampling": Sampling(temperature=0.8, seed=0),
    "ignore_eos": True,
}
_NAMES = frozenset(
    ("trace", "layers", "windows", "sizes", "scale", "softcap", "blocks", "q", "output", "keys", "values")
)


class PeekFileError(ValueError):
    """A file that is no recorded peek; one sentence says why."""


@dataclass(frozen=True, slots=True)
class PeekFile:
    """``trace`` ends with the step whose tensors these are; ``peeks`` by layer, all of that step."""

    trace: Trace
    peeks: Mapping[int, Peek]

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers that were recorded, in order."""
        return tuple(self.peeks)

    def peek(self, layer: int) -> Peek:
        """The step in this layer. ValueError when it was not recorded."""
        if layer not in self.peeks:
            kept = ", ".join(map(str, self.peeks))
            raise ValueError(f"layer {layer} is not in the recording; it holds the layers {kept}.")
        return self.peeks[layer]


def record_peek(model: LoadedModel, request: Mapping[str, Any] = REQUEST) -> PeekFile:
    """Run the request for ``STEPS`` steps and look into the last: first, middle and last layer."""
    from core.engine.engine import Engine

    engine = Engine(model, CONFIG)
    engine.submit(**request)
    for _ in range(STEPS):
        engine.step()
    last = model.geometry.layers - 1
    peeks = {layer: engine.peek(layer) for layer in sorted({0, (last + 1) // 2, last})}
    engine.close()
    return PeekFile(engine.trace, peeks)


def save_peek(found: PeekFile, path: Path) -> None:
    """Write it. ValueError where the last step has other rows than decode rows, or a layer has sinks."""
    first = next(iter(found.peeks.values()))
    if len(first.decoding) != len(first.rows) or first.options.get("sinks") is not None:
        raise ValueError("only a step of decode rows, in a model without sinks, can be recorded.")
    read = _slots_read(first.rows, first.k_cache.shape[1])
    blocks = list(read)
    slots = range(first.k_cache.shape[1])
    unread = torch.tensor([[slot not in seen for slot in slots] for seen in read.values()])
    g, peeks = first.geometry, list(found.peeks.values())
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "t.kvtrace.json.gz"
        save(found.trace, packed)
        trace = packed.read_bytes()

    def kept(pool: torch.Tensor) -> torch.Tensor:
        return pool[blocks].float().cpu().masked_fill(unread[..., None, None], float("nan"))

    def stacked(tensors: Sequence[torch.Tensor]) -> np.ndarray:
        return torch.stack(list(tensors)).float().cpu().numpy()

    arrays: dict[str, Any] = dict(
        trace=np.frombuffer(trace, dtype=np.uint8),
        layers=np.array(found.layers, dtype=np.int64),
        windows=np.array([width or 0 for width in g.windows], dtype=np.int64),  # 0: sees all
        sizes=np.array([g.vocab_size, g.max_positions], dtype=np.int64),
        scale=np.array([peek.options["scale"] for peek in peeks], dtype=np.float64),
        softcap=np.array([peek.options.get("softcap") or 0.0 for peek in peeks], dtype=np.float64),
        blocks=np.array(blocks, dtype=np.int64),
        q=stacked([peek.q for peek in peeks]),
        output=stacked([peek.output for peek in peeks]),
        keys=stacked([kept(peek.k_cache) for peek in peeks]),
        values=stacked([kept(peek.v_cache) for peek in peeks]),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:  # given a name, NumPy would put its own suffix behind it
        np.savez_compressed(file, **arrays)


def load_peek(path: Path) -> PeekFile:
    """Read one, shapes and contents checked. Raises PeekFileError, one sentence."""
    arrays = _arrays(path)
    try:
        trace = load(arrays["trace"].tobytes())
    except TraceError as error:
        raise PeekFileError(f"{path.name} is damaged: its trace cannot be read ({error})") from None
    try:
        rows = _rows(trace)
        geometry = _geometry(trace, arrays)
        _check(trace, rows, geometry, arrays)
    except (KeyError, IndexError, TypeError) as error:
        raise PeekFileError(f"{path.name} is damaged: its trace lacks {error}.") from None
    except PeekFileError as error:
        raise PeekFileError(f"{path.name} is damaged: {error}") from None
    layers = arrays["layers"].tolist()
    peeks = {layer: _peek(trace, rows, geometry, arrays, at) for at, layer in enumerate(layers)}
    return PeekFile(trace, peeks)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """Every array of the archive, none of them unpacked beyond the limit."""
    try:
        raw = path.read_bytes()
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        if unpacked > MAX_BYTES:
            raise PeekFileError(f"{path.name} unpacks to more than {MAX_BYTES >> 20} MiB, the limit.")
        with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
    except PeekFileError:
        raise
    except OSError as error:
        raise PeekFileError(f"The recorded step cannot be read: {error.strerror or error}.") from error
    except Exception:  # the zip and NumPy readers raise half a dozen kinds for damaged bytes
        raise PeekFileError(f"{path.name} is cut off or damaged: it is no NumPy archive.") from None
    if missing := _NAMES - found.keys():
        raise PeekFileError(f"{path.name} is damaged: it lacks the array {sorted(missing)[0]!r}.")
    return found


def _slots_read(rows: Sequence[Scheduled], block_size: int) -> dict[int, set[int]]:
    """Which slots of which blocks the rows read, in order of the blocks."""
    read: dict[int, set[int]] = {}
    for row in rows:
        for position in range(row.kv_len):
            read.setdefault(row.block_table[position // block_size], set()).add(position % block_size)
    return dict(sorted(read.items()))


def _rows(trace: Trace) -> tuple[Scheduled, ...]:
    """The rows of the last step, a decode step: each running sequence computed its last written token."""
    step = trace.steps[-1]
    running = [view for view in step.sequences if view.state == "running"]
    if step.kind != "decode" or not running:
        raise PeekFileError("the last step of its trace is no decode step.")
    return tuple(
        Scheduled(
            sequence=view.id, request=view.request, start=view.written - 1,
            token_ids=view.token_ids[view.written - 1 : view.written], block_table=view.block_table,
        )
        for view in running
    )  # fmt: skip


def _geometry(trace: Trace, arrays: Mapping[str, np.ndarray]) -> Geometry:
    model = trace.meta["model"]
    _shape("sizes", arrays, (2,), "i")
    _shape("windows", arrays, (model["layers"],), "i")
    return Geometry(
        layers=model["layers"], query_heads=model["query_heads"], kv_heads=model["kv_heads"],
        head_dim=model["head_dim"], dtype=model["dtype"],
        windows=tuple(int(width) or None for width in arrays["windows"]),
        vocab_size=int(arrays["sizes"][0]), max_positions=int(arrays["sizes"][1]),
    )  # fmt: skip


def _shape(
    name: str, arrays: Mapping[str, np.ndarray], wanted: tuple[int, ...], kind: str, finite: bool = True
) -> None:
    """Refuse an array of another shape or kind of number, or with a number that is not finite."""
    found = arrays[name]
    if found.shape != wanted or found.dtype.kind != kind:
        raise PeekFileError(f"{name} is {found.dtype}{list(found.shape)}, not {list(wanted)}.")
    if kind == "f" and finite and not np.isfinite(found).all():
        raise PeekFileError(f"{name} holds a number that is not finite.")


def _check(trace: Trace, rows: Sequence[Scheduled], g: Geometry, arrays: Mapping[str, np.ndarray]) -> None:
    """Every array as large as the trace says, and a recorded block for every one that the step reads."""
    size = trace.meta["block_size"]
    count, blocks = len(arrays["layers"]), arrays["blocks"]
    _shape("layers", arrays, (count,), "i")
    layers = arrays["layers"].tolist()
    if not count or layers != sorted(set(layers)) or not 0 <= layers[0] <= layers[-1] < g.layers:
        raise PeekFileError(f"its layers {layers} are not in order between 0 and {g.layers - 1}.")
    for name in ("scale", "softcap"):
        _shape(name, arrays, (count,), "f")
    for name in ("q", "output"):
        _shape(name, arrays, (count, len(rows), g.query_heads, g.head_dim), "f")
    _shape("blocks", arrays, (len(blocks),), "i")
    read = _slots_read(rows, size)
    if blocks.tolist() != list(read) or max(read) >= trace.meta["num_blocks"]:
        raise PeekFileError(f"it holds the blocks {blocks.tolist()}, but its step reads {list(read)}.")
    for name in ("keys", "values"):
        _shape(name, arrays, (count, len(blocks), size, g.kv_heads, g.head_dim), "f", finite=False)
        for at, (block, slots) in enumerate(read.items()):
            if not np.isfinite(arrays[name][:, at, sorted(slots)]).all():
                raise PeekFileError(f"{name} of block {block} hold a number that is not finite.")


def _peek(
    trace: Trace, rows: tuple[Scheduled, ...], g: Geometry, arrays: Mapping[str, np.ndarray], at: int
) -> Peek:
    """One layer, its blocks put where they lay in a pool of NaN."""
    size, layer = trace.meta["block_size"], int(arrays["layers"][at])
    where = torch.from_numpy(arrays["blocks"])

    def pool(name: str) -> torch.Tensor:
        whole = torch.full((trace.meta["num_blocks"], size, g.kv_heads, g.head_dim), float("nan"))
        whole[where] = torch.from_numpy(arrays[name][at]).float()
        return whole

    batch = PagedBatch.build(
        [-1] * len(rows), [row.block_table for row in rows], [1] * len(rows), [row.kv_len for row in rows],
        size,
    )  # fmt: skip
    options = {
        "scale": float(arrays["scale"][at]), "window": g.windows[layer],
        "softcap": float(arrays["softcap"][at]) or None, "sinks": None,
    }  # fmt: skip
    return Peek(
        trace.steps[-1].index, layer, rows, batch, torch.from_numpy(arrays["q"][at]).float(),
        torch.from_numpy(arrays["output"][at]).float(), pool("keys"), pool("values"), options, g,
    )  # fmt: skip
