from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from embeddings.errors import EndpointFailed
from embeddings.hashing import HashingEmbedder
from embeddings.openai_http import BYTES_PER_TOKEN, Endpoint, OpenAIEmbedder
from tests.unit.embeddings.endpoint import DIMENSION, EndpointServer, serving_embeddings

Builder = Callable[..., OpenAIEmbedder]

TEXTS = ["first text", "second one", "and a third"]


@pytest.fixture
def server() -> Iterator[EndpointServer]:
    with serving_embeddings() as server:
        yield server


@pytest.fixture
def opened() -> Iterator[list[OpenAIEmbedder]]:
    embedders: list[OpenAIEmbedder] = []
    yield embedders
    for embedder in embedders:
        embedder.close()


@pytest.fixture
def embedder_at(opened: list[OpenAIEmbedder]) -> Builder:
    def build(url: str, **settings: Any) -> OpenAIEmbedder:
        chosen = {"model": "served", "first_wait_s": 0.0, "deadline_s": 5.0} | settings
        opened.append(OpenAIEmbedder(Endpoint(url=url, **chosen)))
        return opened[-1]

    return build


def failing(server: EndpointServer, embedder: OpenAIEmbedder) -> EndpointFailed:
    with pytest.raises(EndpointFailed) as caught:
        embedder.embed_documents(TEXTS)
    return caught.value


def an_answer(*rows: dict[str, object]) -> tuple[int, str]:
    return 200, json.dumps({"data": list(rows)})


def test_vectors_follow_the_index_of_the_answer_not_its_order(
    server: EndpointServer, embedder_at: Builder
) -> None:
    vectors = embedder_at(server.url).embed_documents(TEXTS)

    np.testing.assert_allclose(
        vectors, HashingEmbedder(DIMENSION).embed_documents(TEXTS), atol=1e-5
    )


def test_the_dimension_is_taken_from_the_first_answer(
    server: EndpointServer, embedder_at: Builder
) -> None:
    assert embedder_at(server.url).space.dimension == DIMENSION


def test_a_given_dimension_needs_no_request(server: EndpointServer, embedder_at: Builder) -> None:
    assert embedder_at(server.url, dimension=7).space.dimension == 7
    assert server.requests == []


def test_model_path_and_key_are_sent(server: EndpointServer, embedder_at: Builder) -> None:
    embedder_at(server.url + "/", api_key="k-1").embed_query("why")

    (request,) = server.requests
    assert (request["model"], request["input"]) == ("served", ["why"])
    assert request["path"] == "/v1/embeddings"
    assert server.keys == ["Bearer k-1"]


def test_white_space_around_a_key_is_dropped(server: EndpointServer, embedder_at: Builder) -> None:
    embedder_at(server.url, api_key=" k-1\n").embed_query("why")

    assert server.keys == ["Bearer k-1"]


@pytest.mark.parametrize("key", ["secret\nkey", "secret-kéy"])
def test_a_key_that_cannot_be_sent_is_refused_without_being_shown(
    embedder_at: Builder, key: str
) -> None:
    with pytest.raises(EndpointFailed, match="API key") as caught:
        embedder_at("http://127.0.0.1:1/v1", api_key=key)

    assert "secret" not in caught.value.message


def test_without_a_key_none_is_sent(server: EndpointServer, embedder_at: Builder) -> None:
    embedder_at(server.url).embed_query("why")

    assert server.keys == [None]


def test_many_texts_are_sent_in_several_requests(
    server: EndpointServer, embedder_at: Builder
) -> None:
    texts = [f"text number {number}" for number in range(150)]

    vectors = embedder_at(server.url).embed_documents(texts)

    assert [len(request["input"]) for request in server.requests] == [64, 64, 22]
    np.testing.assert_allclose(
        vectors, HashingEmbedder(DIMENSION).embed_documents(texts), atol=1e-5
    )


def test_prefixes_are_sent_before_the_texts(server: EndpointServer, embedder_at: Builder) -> None:
    embedder = embedder_at(server.url, query_prefix="query: ", document_prefix="passage: ")

    embedder.embed_query("a")
    embedder.embed_documents(["b"])

    assert [request["input"] for request in server.requests] == [["query: a"], ["passage: b"]]


def test_texts_are_cut_at_the_window_between_characters(
    server: EndpointServer, embedder_at: Builder
) -> None:
    embedder_at(server.url, window=10).embed_documents(["é" * 100, ""])

    assert server.requests[0]["input"] == ["é" * (10 * BYTES_PER_TOKEN // 2), " "]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_passing_failure_is_asked_again(
    server: EndpointServer, embedder_at: Builder, status: int
) -> None:
    server.failures = [(status, "busy")] * 3

    embedder_at(server.url).embed_query("why")

    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("status", "hint"),
    [(400, "window"), (401, "API key"), (403, "API key"), (404, "/v1"), (413, "window")],
)
def test_a_refusal_is_not_asked_again_and_says_what_to_do(
    server: EndpointServer, embedder_at: Builder, status: int, hint: str
) -> None:
    server.always = (status, '{"error": "no such luck"}')

    error = failing(server, embedder_at(server.url))

    assert len(server.requests) == 1
    assert str(status) in error.message
    assert "no such luck" in error.message
    assert hint in error.hint


def test_a_failure_that_stays_is_given_up_at_the_deadline(
    server: EndpointServer, embedder_at: Builder
) -> None:
    server.always = (503, "down")

    error = failing(server, embedder_at(server.url, deadline_s=0.2))

    assert "503" in error.message
    assert len(server.requests) > 1
    assert error.retryable


def test_an_endpoint_that_never_answers_is_given_up(
    server: EndpointServer, embedder_at: Builder
) -> None:
    server.never_answers = True

    error = failing(server, embedder_at(server.url, deadline_s=0.2))

    assert "no answer" in error.message


def test_an_endpoint_that_is_not_there_is_an_error_with_a_hint(
    server: EndpointServer, embedder_at: Builder
) -> None:
    embedder = embedder_at("http://127.0.0.1:1/v1", deadline_s=0.1)

    assert "running" in failing(server, embedder).hint


def test_no_error_shows_the_key_or_the_password_of_the_url(
    server: EndpointServer, embedder_at: Builder
) -> None:
    server.always = (401, "denied")
    url = server.url.replace("http://", "http://user:secret-word@")

    error = failing(server, embedder_at(url, api_key="secret-key"))

    assert "secret" not in f"{error.message} {error.hint}"
    assert "secret-key" not in repr(Endpoint(url=server.url, model="m", api_key="secret-key"))


@pytest.mark.parametrize(
    "answer",
    [
        (200, "<html>"),
        (200, "[]"),
        (200, '{"data": []}'),
        an_answer({"index": 0, "embedding": [1, 2]}),
        an_answer(*[{"index": 0, "embedding": [1, 2]}] * 3),
        an_answer(*[{"index": at, "embedding": []} for at in range(3)]),
        an_answer(*[{"index": at, "embedding": [0, 0]} for at in range(3)]),
        an_answer(*[{"index": at, "embedding": [1] * (at + 1)} for at in range(3)]),
        an_answer(*[{"index": at, "embedding": "AAAA"} for at in range(3)]),
    ],
)
def test_an_answer_without_the_right_vectors_is_an_error(
    server: EndpointServer, embedder_at: Builder, answer: tuple[int, str]
) -> None:
    server.always = answer

    assert failing(server, embedder_at(server.url)).hint


def test_another_dimension_than_before_is_an_error(
    server: EndpointServer, embedder_at: Builder
) -> None:
    error = failing(server, embedder_at(server.url, dimension=7))

    assert f"vectors of {DIMENSION} numbers, not 7" in error.message


def test_tokens_are_estimated_from_bytes(embedder_at: Builder) -> None:
    embedder = embedder_at("http://127.0.0.1:1/v1")

    assert [embedder.count_tokens(text) for text in ("", "a", "abcd", "部署")] == [0, 1, 2, 2]
