"""Measuring a server in a process of its own."""

import json

import pytest

from leadout.bench.http_agent import main as measure_agent
from leadout.bench.http_latency import compared, times_of
from leadout.bench.http_latency import main as measure_latency
from leadout.bench.load import main as measure_load
from leadout.bench.load import slope
from leadout.bench.server_process import ServerProcess
from leadout.errors import ProviderError
from leadout.testing.tiny_gguf import write_tiny_gguf

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant\n"
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("server bench") / "tiny.gguf"
    return str(write_tiny_gguf(path, chat_template=CHATML, n_ctx_train=4096))


def test_a_load_is_put_on_a_server_and_written_down(tiny, tmp_path, capsys):
    out = tmp_path / "load.json"
    measure_load(
        tiny, clients=4, slots=2, seconds=2.0, window=1.0, repeats=1, max_tokens=6, threads=1, out=out
    )
    figures = json.loads(out.read_text())["figures"]
    assert figures["load"]["n_lost"] == figures["load"]["n_wrong"] == 0
    assert figures["load"]["checked"] > 0
    assert figures["load"]["memory_mb"]["most"] > 10
    assert figures["tokens_per_s"]["4 clients"]["auto"]["median"] > 0
    assert " lost; " in capsys.readouterr().out


def test_what_http_adds_is_measured_and_written_down(tiny, tmp_path):
    out = tmp_path / "latency.json"
    measure_latency(tiny, tokens=12, repeats=2, paragraphs=4, out=out)
    figures = json.loads(out.read_text())["figures"]
    assert figures["new"]["prompt_tokens"] > 2 * figures["repeated"]["prompt_tokens"]
    for kind in ("repeated", "new"):
        for name in ("first_token", "gap"):
            times = figures[kind][name]
            assert times["engine_ms"]["n"] == times["http_ms"]["n"] == times["ratio"]["n"] == 2
            assert times["engine_ms"]["median"] > 0


def test_engine_and_server_are_compared_pair_by_pair_and_begin_in_turns(capsys):
    asked = []

    def ask(who, times):
        left = iter(times)

        def answer(text):
            asked.append(who + text)
            return next(left)

        return answer

    own = ask("own ", [(0.1, 0.010), (0.2, 0.010), (0.4, 0.020)])
    http = ask("http ", [(0.2, 0.010), (0.3, 0.011), (0.4, 0.030)])
    figures = compared(own, http, ["a", "b", "c"])
    assert asked == ["own a", "http a", "http b", "own b", "own c", "http c"]
    assert figures["first_token"]["ratio"].median == pytest.approx(1.5)  # of 2, 1.5 and 1
    assert figures["first_token"]["added_ms"].median == pytest.approx(100)
    assert figures["gap"]["ratio"].median == pytest.approx(1.1)
    assert "ratio 1.5 (1..2)" in capsys.readouterr().out


def test_an_agents_calls_are_asked_with_and_without_speculation(tiny, tmp_path):
    out = tmp_path / "agent.json"
    measure_agent(tiny, calls=3, max_tokens=6, repeats=2, threads=1, out=out)
    figures = json.loads(out.read_text())["figures"]
    assert figures["n_same"] == 2
    assert figures["speedup"]["n"] == figures["seconds"]["off"]["n"] == 2


def test_a_server_that_does_not_start_says_why():
    with pytest.raises(ProviderError, match=r"(?s)leadout serve ended: .*nowhere\.gguf"):
        ServerProcess("/nowhere.gguf")


def test_one_token_has_no_time_between():
    with pytest.raises(ProviderError, match="fewer than two tokens"):
        times_of([0.1])
    assert times_of([0.1, 0.2, 0.3]) == (0.1, pytest.approx(0.1))


def test_growth_is_told_per_minute():
    seen = [(float(t), 100.0 + (t - 60) * 0.5 * (t > 60)) for t in range(121)]
    assert slope(seen) == pytest.approx(30.0)
    assert slope([(0.0, 1.0)]) == 0.0
