"""What goes wrong at a URL is said in words: what, where, and what to do."""

import json
import socket

import pytest
from fake_model import FakeModel
from fake_servers import (
    HTML,
    JSON,
    TEXT,
    FakeLlamaServer,
    FakeOllama,
    FakeServer,
    FakeTensorrtLlm,
    FakeVllm,
    serving,
)

from leadout.errors import InputError, ServerError, ServerRefusedError
from leadout.probe import ProbeOptions, probe_server

QUICK = ProbeOptions(n_prompts=1, n_tokens=16, n_draws=0, seed=3, timeout_s=5)
KEY = "sk-very-secret-123"


class Says(FakeServer):
    """Answers every GET and POST with the same."""

    def __init__(self, status, kind, text):
        super().__init__()
        self._answer = (status, kind, text)

    def get(self, path):
        return self._answer

    def post(self, path, body):
        return self._answer


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://host", "http://", "http://host:port", "http://[::1"]
)
def test_text_that_is_no_url_is_refused(url):
    with pytest.raises(InputError, match=r"must be one such as http://127\.0\.0\.1:8000"):
        probe_server(url, options=QUICK)


def test_password_in_a_url_is_refused_and_not_repeated():
    with pytest.raises(InputError, match="carries a user or a password") as caught:
        probe_server("http://me:hunter2@127.0.0.1:1", options=QUICK)
    assert "hunter2" not in str(caught.value)


def test_query_in_a_url_is_refused():
    with pytest.raises(InputError, match=r"without \? and #"):
        probe_server("http://127.0.0.1:1/?key=1", options=QUICK)


@pytest.mark.parametrize("ending", ["/", "/v1", "/v1/"])
def test_url_may_end_as_clients_write_it(ending):
    with serving(FakeVllm()) as url:
        assert probe_server(url + ending, options=QUICK).url == url


def test_refused_connection_is_told():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with pytest.raises(
        ServerError, match=rf"nothing answers at http://127\.0\.0\.1:{port} .*is the server up"
    ):
        probe_server(f"http://127.0.0.1:{port}", options=QUICK)


def test_silent_server_is_left_after_the_timeout():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ServerError, match=r"was silent for 0\.2 s"):
            probe_server(url, options=ProbeOptions(timeout_s=0.2))


def test_server_of_another_kind_is_told():
    with (
        serving(Says(200, HTML, "<!doctype html><html></html>")) as url,
        pytest.raises(ServerError, match=r"as no engine known here; .*--engine NAME"),
    ):
        probe_server(url, options=QUICK)


def test_web_page_instead_of_json_is_told():
    with (
        serving(Says(200, HTML, "<html>hello</html>")) as url,
        pytest.raises(ServerError, match="answered with a web page instead of JSON"),
    ):
        probe_server(url, engine="sglang", options=QUICK)


def test_content_that_is_no_json_is_told():
    with (
        serving(Says(200, JSON, "{oops")) as url,
        pytest.raises(ServerError, match=r"what is no JSON: \{oops"),
    ):
        probe_server(url, engine="sglang", options=QUICK)
    with serving(Says(200, JSON, "[1]")) as url, pytest.raises(ServerError, match="no JSON object"):
        probe_server(url, engine="sglang", options=QUICK)


def test_json_without_what_the_engine_documents_is_told():
    with (
        serving(Says(200, JSON, "{}")) as url,
        pytest.raises(ServerError, match=r"has no meta_info"),
    ):
        probe_server(url, engine="sglang", options=QUICK)
    with serving(Says(200, JSON, "{}")) as url, pytest.raises(ServerError, match=r"has no timings"):
        probe_server(url, engine="llama-server", options=QUICK)


def test_known_field_in_an_unknown_form_is_told():
    class Odd(FakeVllm):
        def post(self, path, body):
            return [{"ids": []}] if path == "/tokenize" else super().post(path, body)

    with serving(Odd()) as url, pytest.raises(ServerError, match=r"not known of vllm .KeyError: 'tokens'"):
        probe_server(url, options=QUICK)


def test_metrics_that_are_no_metrics_are_told():
    class Broken(FakeVllm):
        def get(self, path):
            return (200, TEXT, "vllm: {{{ 1 2 3") if path == "/metrics" else super().get(path)

    with serving(Broken()) as url, pytest.raises(ServerError, match="/metrics is no Prometheus text"):
        probe_server(url, options=QUICK)


def test_redirects_are_not_followed():
    class Elsewhere(FakeVllm):
        def post(self, path, body):
            return 307, TEXT, "http://192.0.2.1/"

    with (
        serving(Elsewhere()) as url,
        pytest.raises(ServerError, match=r"sends us on to http://192\.0\.2\.1/"),
    ):
        probe_server(url, options=QUICK)


def test_failure_of_the_server_is_repeated_in_its_words():
    class Fails(FakeVllm):
        def post(self, path, body):
            return 500, JSON, '{"error": "out of memory"}'

    with serving(Fails()) as url, pytest.raises(ServerError, match=r"failed with HTTP 500: .*out of memory"):
        probe_server(url, options=QUICK)


def test_error_inside_a_stream_is_told():
    class Breaks(FakeTensorrtLlm):
        def post(self, path, body):
            return [{"error": {"message": "engine died"}}]

    with serving(Breaks()) as url, pytest.raises(ServerError, match=r"reported an error: .*engine died"):
        probe_server(url, options=QUICK)


@pytest.mark.parametrize("make", [FakeVllm, FakeLlamaServer, FakeOllama])
def test_server_that_dies_within_an_answer_is_told(make):
    with serving(make(dies=True)) as url, pytest.raises(ServerError, match=r"broke off .*may have died"):
        probe_server(url, options=QUICK)


def test_missing_key_names_the_option():
    with (
        serving(FakeVllm(key=KEY)) as url,
        pytest.raises(ServerRefusedError, match=r"wants an API key .*--api-key-env"),
    ):
        probe_server(url, options=QUICK)


def test_wrong_key_is_refused_without_repeating_it():
    with serving(FakeVllm(key="another")) as url:
        with pytest.raises(ServerRefusedError, match="refuses the API key") as caught:
            probe_server(url, api_key=KEY, options=QUICK)
        assert KEY not in str(caught.value)


def test_page_that_wants_more_rights_does_not_stop_the_probe():
    class Guarded(FakeVllm):
        def get(self, path):
            return (403, JSON, "{}") if path.startswith("/server_info") else super().get(path)

    with serving(Guarded()) as url:
        assert probe_server(url, options=QUICK).exit_code == 0


def test_key_that_a_server_echoes_is_blotted_out():
    class Echoes(FakeVllm):
        def post(self, path, body):
            return 400, JSON, json.dumps({"error": f"Bearer {KEY} may not"})

    with serving(Echoes(key=KEY)) as url:
        with pytest.raises(ServerRefusedError, match=r"HTTP 400: .*\*\*\*") as caught:
            probe_server(url, api_key=KEY, options=QUICK)
        assert KEY not in str(caught.value)


def test_key_is_sent_and_in_no_report():
    with serving(FakeVllm(key=KEY)) as url:
        report = probe_server(url, api_key=KEY, options=QUICK)
    assert KEY not in json.dumps(report.to_json())


def test_key_that_http_cannot_carry_is_refused():
    with pytest.raises(InputError, match="must be plain ASCII"):
        probe_server("http://127.0.0.1:1", api_key="ключ", options=QUICK)


def test_unknown_engine_and_model_are_refused_by_name():
    with serving(FakeVllm()) as url:
        with pytest.raises(InputError, match="engine is 'vlm'; it must be one of leadout, ollama"):
            probe_server(url, engine="vlm", options=QUICK)
        with pytest.raises(InputError, match="does not serve 'other'; it serves toy"):
            probe_server(url, model="other", options=QUICK)


def test_several_models_ask_for_a_name():
    class Two(FakeVllm):
        def get(self, path):
            entries = [{"id": name, "owned_by": "vllm"} for name in ("a", "b")]
            return (200, JSON, json.dumps({"data": entries})) if path == "/v1/models" else super().get(path)

    with serving(Two()) as url, pytest.raises(InputError, match="serves a, b; name one with --model NAME"):
        probe_server(url, options=QUICK)


def test_answer_without_end_is_cut_by_its_size():
    class Endless(FakeVllm):
        def get(self, path):
            return (200, TEXT, "x" * (17 * 2**20)) if path == "/metrics" else super().get(path)

    with (
        serving(Endless()) as url,
        pytest.raises(ServerError, match="answered with more than 16,777,216 bytes"),
    ):
        probe_server(url, options=QUICK)


def test_time_limit_leaves_parts_out_and_says_so():
    class Slow(FakeModel):
        def answer(self, *arguments, **named):
            import time

            time.sleep(0.3)
            return super().answer(*arguments, **named)

    with serving(FakeVllm(model=Slow())) as url:
        report = probe_server(url, options=ProbeOptions(n_prompts=8, n_tokens=16, limit_s=1, seed=1))
    assert report.is_cut
    assert report.drafting.n_tokens < 8 * 16
    assert report.law.n_draws == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n_prompts": 0}, "n_prompts is 0; it must be a whole number in 1..50"),
        ({"n_tokens": 4}, "n_tokens is 4; it must be a whole number in 8..1024"),
        ({"n_replays": 0}, "n_replays is 0"),
        ({"n_draws": -1}, "n_draws is -1"),
        ({"long_prompt": -1}, "long_prompt is -1"),
        ({"draft_model": 3}, "draft_model is 3; it must be a model's name or None"),
        ({"timeout_s": 0}, "timeout_s is 0; it must be seconds"),
        ({"limit_s": 0}, "limit_s is 0; it must be seconds"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_limits_outside_their_range_are_refused(wrong, said):
    with pytest.raises(InputError, match=said):
        ProbeOptions(**wrong)
