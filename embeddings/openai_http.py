"""Any endpoint that speaks OpenAI's `/v1/embeddings`: Ollama, vLLM, TEI and the like."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import httpx
import numpy as np
import tenacity

from embeddings.embedder import EmbeddingSpace, Vectors
from embeddings.errors import EndpointFailed
from embeddings.text import encodable

#: A token is seldom shorter than this, so estimates err towards too many tokens.
BYTES_PER_TOKEN = 3

_TEXTS_PER_REQUEST = 64
_LONGEST_WAIT_S = 10
_RETRIED_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_HINTS: Mapping[int, str] = {
    400: "the endpoint refused the texts; is the window set larger than the model's?",
    401: "check the API key of the embedding endpoint",
    403: "check the API key of the embedding endpoint, and what it may use",
    404: "check the URL (it usually ends in /v1) and that the endpoint has this model",
    413: "the texts are too long for the model; set a smaller window",
    422: "the endpoint refused the texts; is the window set larger than the model's?",
    429: "the endpoint limits how often it may be asked; wait, or raise the limit",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a remote model is and how to ask it.

    `url` is what stands before `/embeddings`. Without `dimension` it is taken from the first
    answer. After `deadline_s` no request is repeated, and none waits longer for its next byte.
    """

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    dimension: int | None = None
    window: int = 512
    query_prefix: str = ""
    document_prefix: str = ""
    deadline_s: float = 60.0
    first_wait_s: float = 0.5


class OpenAIEmbedder:
    """An embedder that asks an endpoint. Threads may share it.

    Tokens are estimated from bytes, since the endpoint's tokenizer is out of reach; texts are cut
    at the window by that estimate before they are sent. Proxies and certificates of the
    environment are not looked at. Asking for `space` may send a request.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        try:
            self._client = httpx.Client(
                base_url=endpoint.url.rstrip("/") + "/",
                headers=_headers(endpoint.api_key),
                trust_env=False,
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise EndpointFailed(
                f"the endpoint has no usable URL: {error}", hint="write http://HOST:PORT/v1"
            ) from error
        self._endpoint = endpoint
        self._lock = Lock()  # guards _dimension
        self._dimension = endpoint.dimension

    @property
    def space(self) -> EmbeddingSpace:
        endpoint = self._endpoint
        return EmbeddingSpace(
            model=endpoint.model,
            revision="remote",
            dimension=self._dimension or self._ask(["dimension"]).shape[1],
            window=endpoint.window,
            pooling="remote",
            query_prefix=endpoint.query_prefix,
            document_prefix=endpoint.document_prefix,
        )

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, self.space.dimension), np.float32)
        prepared = [self._cut(self._endpoint.document_prefix + text) for text in texts]
        batches = range(0, len(prepared), _TEXTS_PER_REQUEST)
        return np.vstack([self._ask(prepared[at : at + _TEXTS_PER_REQUEST]) for at in batches])

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self._ask([self._cut(self._endpoint.query_prefix + text)])[0]
        return vector

    def count_tokens(self, text: str) -> int:
        """Estimate the tokens of a text: one for every three bytes of UTF-8."""
        return math.ceil(len(encodable(text).encode()) / BYTES_PER_TOKEN)

    def close(self) -> None:
        """Close the connections; they are opened again when needed."""
        self._client.close()

    def _cut(self, text: str) -> str:
        limit = self._endpoint.window * BYTES_PER_TOKEN
        cut = encodable(text).encode()[:limit].decode("utf-8", "ignore")
        return cut or " "  # some endpoints refuse an empty text

    def _ask(self, texts: Sequence[str]) -> Vectors:
        answer = self._post({"model": self._endpoint.model, "input": list(texts)})
        vectors = _vectors(answer, len(texts))
        with self._lock:
            if self._dimension is None:
                self._dimension = vectors.shape[1]
        if vectors.shape[1] != self._dimension:
            raise EndpointFailed(
                f"{self._endpoint.model} answered vectors of {vectors.shape[1]} numbers, "
                f"not {self._dimension}",
                hint="is another model served under that name? set its dimension",
            )
        return vectors

    def _post(self, body: Mapping[str, Any]) -> Any:
        until = time.monotonic() + self._endpoint.deadline_s
        refusals: list[httpx.Response] = []
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_is_passing),
            wait=tenacity.wait_random_exponential(
                multiplier=self._endpoint.first_wait_s, max=_LONGEST_WAIT_S
            ),
            stop=tenacity.stop_before_delay(self._endpoint.deadline_s),
            reraise=True,
        )
        try:
            return retrying(self._post_once, body, until, refusals)
        except httpx.HTTPStatusError as error:
            raise self._refused(error.response) from error
        except httpx.RequestError as error:
            # The last try may have had no time left; what was answered before says more.
            if refusals and isinstance(error, httpx.TimeoutException):
                raise self._refused(refusals[-1]) from error
            raise self._unreachable(error) from error

    def _post_once(
        self, body: Mapping[str, Any], until: float, refusals: list[httpx.Response]
    ) -> Any:
        left = max(until - time.monotonic(), 0.001)
        response = self._client.post("embeddings", json=body, timeout=left)
        if response.is_error:
            refusals.append(response)
        response.raise_for_status()
        try:
            return response.json()
        except ValueError as error:
            raise EndpointFailed(
                f"{self._place} did not answer with JSON",
                hint="check the URL; it usually ends in /v1",
            ) from error

    def _refused(self, response: httpx.Response) -> EndpointFailed:
        status = response.status_code
        said = " ".join(response.text.split())[:200]
        return EndpointFailed(
            f"{self._place} answered {status} for the model {self._endpoint.model}: {said}",
            hint=_HINTS.get(status, "look into the log of the embedding endpoint"),
        )

    def _unreachable(self, error: httpx.RequestError) -> EndpointFailed:
        return EndpointFailed(
            f"no answer from {self._place}: {type(error).__name__} {error}".rstrip(),
            hint="is the embedding endpoint running, and is the URL right?",
        )

    @property
    def _place(self) -> str:
        """Name the endpoint without what the URL may hold of passwords."""
        url = self._client.base_url
        return f"{url.scheme}://{url.host}{f':{url.port}' if url.port else ''}{url.path}"


def _headers(api_key: str | None) -> dict[str, str]:
    key = (api_key or "").strip()
    # Checked here: the library would show the key in its own error.
    if not (key.isascii() and key.isprintable()):
        raise EndpointFailed(
            "the API key holds characters that cannot be sent", hint="copy the API key again"
        )
    return {"Authorization": f"Bearer {key}"} if key else {}


def _is_passing(error: BaseException) -> bool:
    """Say whether asking again may help."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in _RETRIED_STATUS
    return isinstance(error, httpx.TransportError) and not isinstance(
        error, httpx.UnsupportedProtocol
    )


def _vectors(answer: Any, count: int) -> Vectors:
    """Read the vectors of an answer in the order of its indexes, at length 1."""
    hint = "the endpoint does not speak OpenAI's embeddings; check the URL and the model"
    try:
        rows = sorted(answer["data"], key=lambda row: row["index"])
        places = [row["index"] for row in rows]
        vectors = np.array([row["embedding"] for row in rows], np.float32)
    except (KeyError, TypeError, ValueError) as error:
        raise EndpointFailed("the answer holds no vectors", hint=hint) from error
    if places != list(range(count)) or vectors.ndim != 2 or not vectors.size:
        raise EndpointFailed(f"the answer does not hold {count} vectors of one size", hint=hint)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or (lengths == 0).any():
        raise EndpointFailed("the answer holds vectors that are not finite or zero", hint=hint)
    unit: Vectors = vectors / lengths
    return unit
