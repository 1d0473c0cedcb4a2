"""schemathesis against a running engine: whatever is sent, the answer is one that is documented."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from memory.engine import openapi
from tests.support.homes import Home
from tests.support.http_engines import HttpEngine

EXAMPLES = 25

load_all_checks()

#: What the document promises. Whether a value is refused is left to the verbs: JSON Schema does not
#: know that a name of blanks is none, or which ids there are.
PROMISES = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)

OPERATIONS = [
    (method.upper(), path)
    for path, operations in openapi.document()["paths"].items()
    for method in operations
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpEngine]:
    folder = tmp_path_factory.mktemp("fuzzed")
    # As quick as one can send: the limit itself has tests of its own.
    home = Home(folder / "home", folder / "project", TIERMEM_HTTP_RATE_PER_MINUTE="1000000")
    home.json("save", "the retry budget is five attempts", "--name", "retry budget")
    running = HttpEngine(home)
    yield running
    running.end()
    home.end()


@pytest.fixture(scope="module")
def schema(engine: HttpEngine) -> schemathesis.BaseSchema:
    with engine.client(engine.token()) as client:
        document = client.get("/openapi.json").json()
    # Else half of the requests would come without a token, and try nothing but the door.
    del document["security"], document["components"]["securitySchemes"]
    made = schemathesis.openapi.from_dict(document)
    made.config.update(base_url=engine.url)
    return made


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_no_request_is_answered_with_what_is_not_documented(
    schema: schemathesis.BaseSchema, engine: HttpEngine, method: str, path: str
) -> None:
    headers = {"Authorization": f"Bearer {engine.token()}"}
    operation = schema[path][method]
    answered: set[int] = set()

    @given(case=operation.as_strategy() | operation.as_strategy(GenerationMode.NEGATIVE))
    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.explicit, Phase.generate],
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def fuzz(case: Case) -> None:
        response = case.call(headers=headers)
        answered.add(response.status_code)
        case.validate_response(response, checks=[CHECKS.get_one(name) for name in PROMISES])

    fuzz()

    assert answered & {200, 400, 404, 409}, f"only {answered}"
    assert not answered & {401, 429}
