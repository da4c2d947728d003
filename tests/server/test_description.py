"""The served OpenAPI description, and requests made from it."""

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from live import live
from schemathesis.checks import not_a_server_error
from serving import replying, served

from leadout.server.app import make_app
from leadout.server.registry import LoadedModels

FEW = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


SCHEMA = schemathesis.openapi.from_dict(make_app(LoadedModels({})).openapi())


@pytest.fixture(scope="module")
def url():
    """Where a server runs."""
    with live(served(replying("Hi.", n_ctx=512), max_queued=100)) as server:
        yield server.url


@SCHEMA.parametrize()
@FEW
def test_no_request_of_the_description_breaks_the_server(case, url):
    if isinstance(case.body, dict) and "model" in case.body:
        case.body["model"] = "toy"  # no other is there, and 404 shows nothing
    response = case.call_and_validate(base_url=url, checks=[not_a_server_error])
    if response.status_code >= 400:
        error = response.json()["error"]
        if case.path.startswith("/api/"):
            assert isinstance(error, str)
        else:
            assert set(error) == {"message", "type", "param", "code"}


def test_every_route_is_described():
    paths = SCHEMA.raw_schema["paths"]
    assert set(paths) == {
        "/health",
        "/ready",
        "/metrics",
        "/v1/models",
        "/v1/models/{name}",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/api/chat",
        "/api/generate",
        "/api/tags",
        "/api/show",
        "/api/ps",
        "/api/pull",
        "/api/version",
    }
    chat = SCHEMA.raw_schema["components"]["schemas"]["ChatForm"]
    assert set(chat["required"]) == {"messages", "model"}
    assert chat["additionalProperties"] is False
    assert {"400", "401", "404", "413", "429", "200"} <= set(
        paths["/v1/chat/completions"]["post"]["responses"]
    )
