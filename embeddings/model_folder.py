"""What a folder with a model says about it: the layout of sentence-transformers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from embeddings.embedder import EmbeddingSpace
from embeddings.errors import ModelNotLoaded
from embeddings.models import model_of_weights

_Json = TypeVar("_Json", dict[str, Any], list[dict[str, Any]])

_DEFAULT_WINDOW = 512
_ONNX_FILES = ("model.onnx", "onnx/model.onnx")
_WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin", *_ONNX_FILES)

#: The keys that stand for one way of pooling in configurations written before `pooling_mode`.
_POOLING_FLAGS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A folder with a model; every question reads its files again."""

    path: Path

    def onnx_file(self) -> Path | None:
        """Find the .onnx file: `model.onnx`, `onnx/model.onnx`, or the only one there is."""
        for name in _ONNX_FILES:
            if (self.path / name).is_file():
                return self.path / name
        files = sorted(self.path.glob("*.onnx"))
        return files[0] if len(files) == 1 else None

    def tokenizer_file(self) -> Path:
        return self.path / "tokenizer.json"

    def space(self) -> EmbeddingSpace:
        """Work out the space of this model; its revision is a fingerprint of its weights.

        A copy of a known model is recognised by its weights, whatever the folder is called.
        Raises ModelNotLoaded when the dimension or the weights cannot be found.
        """
        sha256 = self._fingerprint()
        known = model_of_weights(sha256)
        query_prefix, document_prefix = self._prefixes()
        return EmbeddingSpace(
            model=known.space.model if known else self.path.resolve().name,
            revision=known.space.revision if known else sha256[:12],
            dimension=self._dimension(),
            window=self._window(),
            pooling=self._pooling(),
            query_prefix=query_prefix,
            document_prefix=document_prefix,
        )

    def extra_modules(self) -> list[str]:
        """Name the modules after pooling that change vectors, such as a dense layer."""
        modules = self._read("modules.json", list)
        kinds = [str(module["type"]).rpartition(".")[2] for module in modules if "type" in module]
        return [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]

    def _fingerprint(self) -> str:
        onnx = self.onnx_file()
        candidates = [self.path / name for name in _WEIGHT_FILES] + ([onnx] if onnx else [])
        weights = next((path for path in candidates if path.is_file()), None)
        if weights is None:
            raise ModelNotLoaded(
                f"no weights in {self.path}",
                hint="the folder needs model.onnx with tokenizer.json, or model.safetensors",
            )
        with weights.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _dimension(self) -> int:
        pooling = self._read("1_Pooling/config.json", dict)
        config = self._read("config.json", dict)
        for value in (
            pooling.get("embedding_dimension"),
            pooling.get("word_embedding_dimension"),
            config.get("hidden_size"),
            config.get("dim"),
        ):
            if isinstance(value, int):
                return value
        raise ModelNotLoaded(
            f"{self.path} does not say how long its vectors are",
            hint="copy config.json and 1_Pooling/config.json from the model into the folder",
        )

    def _window(self) -> int:
        chosen = self._read("sentence_bert_config.json", dict).get("max_seq_length")
        if isinstance(chosen, int):
            return chosen
        limits = [
            self._read("tokenizer_config.json", dict).get("model_max_length"),
            self._read("config.json", dict).get("max_position_embeddings"),
        ]
        return min((limit for limit in limits if isinstance(limit, int)), default=_DEFAULT_WINDOW)

    def _pooling(self) -> str:
        config = self._read("1_Pooling/config.json", dict)
        named = config.get("pooling_mode")
        modes = [named] if isinstance(named, str) else list(named or ())
        modes += [mode for flag, mode in _POOLING_FLAGS.items() if config.get(flag)]
        return "+".join(modes) or "mean"

    def _prefixes(self) -> tuple[str, str]:
        config = self._read("config_sentence_transformers.json", dict)
        prompts = config.get("prompts") or {}
        return str(prompts.get("query") or ""), str(prompts.get("document") or "")

    def _read(self, name: str, kind: type[_Json]) -> _Json:
        """Read a JSON file of the folder; an empty value when it is not there."""
        path = self.path / name
        hint = "copy that file from the model again"
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return kind()
        except (OSError, ValueError) as error:
            raise ModelNotLoaded(f"cannot read {path}: {error}", hint=hint) from error
        if not isinstance(value, kind):
            raise ModelNotLoaded(f"{path} does not hold what its name says", hint=hint)
        return value
