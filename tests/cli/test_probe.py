"""`leadout probe` in a process of its own, against local servers in the engines' forms."""

import json
import sys
from pathlib import Path

import pytest
from commands import assert_one_line, leadout

sys.path.insert(0, str(Path(__file__).parents[1] / "probe"))
from fake_model import FakeModel
from fake_servers import FakeLlamaServer, FakeTensorrtLlm, FakeVllm, serving

SMALL = ("--prompts", "2", "--tokens", "24", "--draws", "80", "--seed", "3")


def test_table_ends_with_the_verdict_and_its_cause():
    with serving(FakeVllm()) as url:
        done = leadout("probe", url, *SMALL)
    assert done.returncode == 0
    for part in ("set-up", "drafting", "speed", "greedy text", "law"):
        assert part in done.stdout
    assert done.stdout.splitlines()[-1].startswith("verdict: on [drafts-and-unharmed]")
    assert "false alarm at most 0.001" in done.stdout


def test_json_has_figures_limits_and_the_exit_code():
    with serving(FakeVllm()) as url:
        done = leadout("probe", url, *SMALL, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert (report["verdict"], report["exit_code"], report["engine"]) == ("on", 0, "vllm")
    assert report["drafting"]["acceptance"] > 0
    assert report["law"]["false_alarm"] == 0.001
    assert report["limits"]["n_prompts"] == 2


@pytest.mark.parametrize(
    ("server", "code", "verdict"),
    [
        (FakeLlamaServer(types="none", built=False, model=FakeModel(drafts=False)), 3, "off"),
        (FakeLlamaServer(model=FakeModel(accepts=False)), 4, "on-but-useless"),
        (FakeLlamaServer(model=FakeModel(rule="greedy")), 5, "not-lossless"),
        (FakeTensorrtLlm(), 6, "unknown"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_exit_code_tells_the_verdict(server, code, verdict):
    with serving(server) as url:
        done = leadout("probe", url, *SMALL)
    assert done.returncode == code
    assert f"verdict: {verdict} [" in done.stdout


def test_plain_server_is_compared():
    with serving(FakeVllm()) as url, serving(FakeVllm(model=FakeModel(drafts=False))) as plain:
        done = leadout("probe", url, "--plain", plain, *SMALL, "--json")
    report = json.loads(done.stdout)
    assert report["plain_url"] == plain
    assert report["equality"]["method"] == "plain side"
    assert report["speedup"]["n"] == 2


def test_key_comes_from_the_environment_and_goes_nowhere_else():
    with serving(FakeVllm(key="sk-secret")) as url:
        named = leadout("probe", url, *SMALL, "--json", "--api-key-env", "MY_KEY", MY_KEY="sk-secret")
        usual = leadout("probe", url, *SMALL, "--draws", "0", LEADOUT_API_KEY="sk-secret")
        assert_one_line(leadout("probe", url, *SMALL), 1, "wants an API key (HTTP 401)", "--api-key-env")
        assert_one_line(leadout("probe", url, "--api-key-env", "NONE"), 2, "variable NONE is not set")
    assert (named.returncode, usual.returncode) == (0, 0)
    assert "sk-secret" not in named.stdout + named.stderr + usual.stdout + usual.stderr


def test_mistakes_cost_one_line():
    assert_one_line(leadout("probe", "localhost"), 2, "'localhost'", "http://127.0.0.1:8000")
    assert_one_line(leadout("probe", "http://127.0.0.1:1"), 1, "nothing answers at http://127.0.0.1:1")
    assert_one_line(leadout("probe", "http://127.0.0.1:1", "--prompts", "0"), 2, "n_prompts is 0")
    assert_one_line(leadout("probe", "http://127.0.0.1:1", "--engine", "lama"), 2, "engine is 'lama'")


def test_plain_side_that_is_no_url_is_refused_before_any_server_is_asked():
    done = leadout("probe", "http://127.0.0.1:1", "--plain", "nope")
    assert_one_line(done, 2, "the URL is 'nope'; it must be one such as http://127.0.0.1:8000")
