"""Models on ONNX Runtime: the light default."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from embeddings.embedder import EmbeddingSpace, Vectors
from embeddings.errors import EmbeddingError, ModelNotLoaded
from embeddings.model_folder import ModelFolder
from embeddings.tokenizer import TextTokenizer, load_tokenizer

_Ids = npt.NDArray[np.int64]

#: Small batches are faster and leaner on a CPU: 300 texts of MiniLM on two cores took 192 texts/s
#: and 265 MB at their peak with 512 tokens a batch, 104 texts/s and 796 MB with 2,048 (2026-11).
TEXTS_PER_BATCH = 32
TOKENS_PER_BATCH = 512

_POOLINGS = ("mean", "cls")
_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxModel:
    """The files of a model and the space they make.

    `vocabulary` is a `tokenizer.json`, or the `vocab.txt` of an uncased BERT model. With `sha256`
    and `size_bytes` the weights are refused unless they are exactly those.
    """

    weights: Path
    vocabulary: Path
    space: EmbeddingSpace
    size_bytes: int | None = None
    sha256: str | None = None


def model_in_folder(folder: ModelFolder) -> OnnxModel:
    """Describe the model of a folder with an .onnx file and a tokenizer.json.

    Raises ModelNotLoaded when a file is missing or the model needs more than pooling.
    """
    weights = folder.onnx_file()
    if weights is None:
        raise ModelNotLoaded(
            f"no .onnx file in {folder.path}",
            hint="put model.onnx there, or choose the backend sentence-transformers",
        )
    if extra := folder.extra_modules():
        raise ModelNotLoaded(
            f"the model in {folder.path} has layers after pooling: {', '.join(extra)}",
            hint="choose the backend sentence-transformers for this model",
        )
    return OnnxModel(weights=weights, vocabulary=folder.tokenizer_file(), space=folder.space())


class OnnxEmbedder:
    """An embedder on ONNX Runtime. Threads may share it.

    Files are checked here; the tokenizer and the weights are loaded at their first use, or by
    `load`, so that an idle process pays for neither.
    """

    def __init__(self, model: OnnxModel, *, threads: int = 2) -> None:
        _check(model)
        self._model = model
        self._threads = threads
        self._loading = Lock()  # guards _session and _tokenizer
        self._session: _Session | None = None
        self._tokenizer: TextTokenizer | None = None

    @property
    def space(self) -> EmbeddingSpace:
        return self._model.space

    def load(self) -> None:
        """Load tokenizer and weights now. Raises ModelNotLoaded."""
        self._tokens()
        self._run()

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self.space.document_prefix + text for text in texts])

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self._embed([self.space.query_prefix + text])[0]
        return vector

    def count_tokens(self, text: str) -> int:
        return self._tokens().count(text)

    def _embed(self, texts: Sequence[str]) -> Vectors:
        ids = self._tokens().encode(texts)
        vectors = np.empty((len(texts), self.space.dimension), np.float32)
        for batch in plan_batches([len(tokens) for tokens in ids]):
            vectors[batch] = self._run().vectors([ids[row] for row in batch])
        return vectors

    def _tokens(self) -> TextTokenizer:
        with self._loading:
            if self._tokenizer is None:
                self._tokenizer = load_tokenizer(self._model.vocabulary, self.space.window)
            return self._tokenizer

    def _run(self) -> _Session:
        pad_id = self._tokens().pad_id
        with self._loading:
            if self._session is None:
                self._session = _Session(self._model, pad_id=pad_id, threads=self._threads)
            return self._session


def plan_batches(
    lengths: Sequence[int],
    *,
    texts_per_batch: int = TEXTS_PER_BATCH,
    tokens_per_batch: int = TOKENS_PER_BATCH,
) -> list[list[int]]:
    """Group texts of similar length: each batch keeps within both limits, padding included.

    A single text may exceed the limit of tokens.
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row]):
        room = min(texts_per_batch, tokens_per_batch // max(lengths[row], 1))
        if batches and len(batches[-1]) < room:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


class _Session:
    """A loaded model."""

    def __init__(self, model: OnnxModel, *, pad_id: int, threads: int) -> None:
        self._space = model.space
        self._pad_id = pad_id
        self._session = _open_session(model, threads)
        self._inputs = frozenset(node.name for node in self._session.get_inputs())
        if unknown := self._inputs - _INPUTS:
            names = ", ".join(sorted(unknown))
            raise ModelNotLoaded(
                f"{model.weights} wants inputs that texts do not have: {names}",
                hint="export the model again for feature extraction",
            )
        self._output = _choose_output(self._session)

    def vectors(self, ids: Sequence[Sequence[int]]) -> Vectors:
        """Embed token ids as one batch, padded to the longest."""
        feeds = _feeds(ids, self._pad_id)
        inputs = {name: value for name, value in feeds.items() if name in self._inputs}
        try:
            (states,) = self._session.run([self._output], inputs)
        except Exception as error:  # the library's errors have no base class of their own
            raise EmbeddingError(
                f"the model {self._space.model} failed: {error}",
                hint="check that the window of the model is not larger than it was trained for",
            ) from error
        vectors = _normalised(self._pool(states, feeds["attention_mask"]))
        if vectors.shape[1] != self._space.dimension:
            raise ModelNotLoaded(
                f"{self._space.model} makes vectors of {vectors.shape[1]} numbers, "
                f"its configuration says {self._space.dimension}",
                hint="copy config.json and 1_Pooling/config.json from the model into its folder",
            )
        return vectors

    def _pool(self, states: Vectors, mask: _Ids) -> Vectors:
        if states.ndim == 2:
            return states
        if self._space.pooling == "cls":
            first: Vectors = states[:, 0]
            return first
        weights = mask[:, :, None].astype(np.float32)
        mean: Vectors = (states * weights).sum(axis=1) / weights.sum(axis=1)
        return mean


def _check(model: OnnxModel) -> None:
    hint = "install the package or copy the file again"
    try:
        size = model.weights.stat().st_size
    except OSError as error:
        raise ModelNotLoaded(f"cannot read {model.weights}: {error}", hint=hint) from error
    if model.size_bytes not in (None, size):
        raise ModelNotLoaded(
            f"{model.weights} has {size} bytes, not {model.size_bytes}: it is another model "
            "or was not copied whole",
            hint=hint,
        )
    if not model.vocabulary.is_file():
        raise ModelNotLoaded(
            f"no tokenizer at {model.vocabulary}",
            hint="put the model's tokenizer.json beside its .onnx file",
        )
    if model.space.pooling not in _POOLINGS:
        raise ModelNotLoaded(
            f"{model.space.model} pools by {model.space.pooling}; ONNX models can only use "
            + " or ".join(_POOLINGS),
            hint="choose the backend sentence-transformers for this model",
        )


def _open_session(model: OnnxModel, threads: int) -> Any:
    # Here, because the library adds 16 MB to a process that may never embed anything.
    import onnxruntime

    if model.sha256 is not None:
        _verify(model.weights, model.sha256)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Threads that spin while they wait take the cores from everyone: on a busy machine with two
    # cores texts took 1.2 to 2 times as long with spinning (2026-11).
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    # Without the arena an import's peak goes back to the system, at no cost in batches this small.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    try:
        return onnxruntime.InferenceSession(
            str(model.weights), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # the library's errors have no base class of their own
        raise ModelNotLoaded(
            f"ONNX Runtime cannot load {model.weights}: {error}",
            hint="copy the file again, or choose the backend sentence-transformers",
        ) from error


def _verify(weights: Path, sha256: str) -> None:
    with weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise ModelNotLoaded(
            f"{weights} is not the file it should be (SHA-256 {found})",
            hint="install the package that carries it again",
        )


def _choose_output(session: Any) -> str:
    """Take the pooled vector when the model names one, else the states of its last layer."""
    outputs = session.get_outputs()
    named = [node.name for node in outputs if node.name == "sentence_embedding"]
    states = [node.name for node in outputs if len(node.shape) == 3]
    name: str = (named or states or [outputs[0].name])[0]
    return name


def _feeds(ids: Sequence[Sequence[int]], pad_id: int) -> Mapping[str, _Ids]:
    shape = (len(ids), max(len(tokens) for tokens in ids))
    input_ids = np.full(shape, pad_id, np.int64)
    mask = np.zeros(shape, np.int64)
    for row, tokens in enumerate(ids):
        input_ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return {
        "input_ids": input_ids,
        "attention_mask": mask,
        "token_type_ids": np.zeros(shape, np.int64),
    }


def _normalised(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    result: Vectors = (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)
    return result
