import os
import socket
import sys

import pytest
from programs import SERVER, write_program

from leadout.errors import BackendError, InputError, ProviderError
from leadout.launch.execute import answers, execute
from leadout.launch.setup import Command, File, Setup


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def served(tmp_path):
    """A set-up of a small server."""
    port = free_port()
    program = write_program(tmp_path / "engine", SERVER)
    return Setup(
        engine="test",
        argv=(str(program), "--port", str(port)),
        url=f"http://127.0.0.1:{port}",
        health="/health",
    )


def changed(setup, **changes):
    from dataclasses import replace

    return replace(setup, **changes)


def test_engine_answers_when_it_is_ready_and_is_gone_afterwards(served, capfd):
    said, seen = [], []

    def ready(url):
        seen.append(answers(url + served.health))
        return False

    assert execute(served, os.environ, say=said.append, ready=ready) == 0
    assert seen == [True]
    assert not answers(served.url + served.health)
    assert said[0].startswith("starting ")
    assert said[-1].startswith(f"ready at {served.url} after ")
    assert capfd.readouterr().out.startswith("engine ")


def test_files_and_commands_surround_the_engine(served, tmp_path):
    python = sys.executable
    log = tmp_path / "order"

    def noting(word, code="True"):
        text = f"import os; open({str(log)!r}, 'a').write({word!r} + '\\n'); assert {code}"
        return (Command(argv=(python, "-c", text), purpose=word),)

    setup = changed(
        served,
        files=(File(name="config.yaml", text="a: 1\n"),),
        before=noting("before", "open('config.yaml').read() == 'a: 1\\n'"),
        after=noting("after"),
        closing=noting("closing"),
    )
    execute(setup, os.environ, say=lambda _: None, ready=lambda _: False)
    assert log.read_text() == "before\nafter\nclosing\n"


def test_variables_are_inherited_set_and_defaulted(served, capfd):
    environment = {**os.environ, "HF_TOKEN": "from outside"}
    setup = changed(served, defaults=(("HF_TOKEN", "default"),))
    execute(setup, environment, say=lambda _: None, ready=lambda _: False)
    assert "from outside" in capfd.readouterr().out
    setup = changed(served, environment=(("HF_TOKEN", "set"),))
    execute(setup, environment, say=lambda _: None, ready=lambda _: False)
    assert " set\n" in capfd.readouterr().out


def test_port_in_use_is_refused_before_anything_starts(served):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", int(served.url.rsplit(":", 1)[1])))
        listening.listen()
        with pytest.raises(InputError, match=r"port \d+ of 127\.0\.0\.1 is in use already.*--port"):
            execute(served, os.environ, say=lambda _: None)


def test_engine_that_ends_before_it_is_ready(served, tmp_path):
    program = write_program(tmp_path / "broken", "raise SystemExit(7)")
    with pytest.raises(BackendError, match="test ended with code 7 before it was ready"):
        execute(changed(served, argv=(str(program),)), os.environ, say=lambda _: None)


def test_engine_that_never_answers_is_ended(served):
    with pytest.raises(BackendError, match=r"did not answer at .*/never in time.*--ready-timeout"):
        execute(changed(served, health="/never"), os.environ, say=lambda _: None, ready_s=2)
    assert not answers(served.url + "/health")


def test_engine_that_cannot_be_started(served):
    with pytest.raises(ProviderError, match="/no/such/program cannot be run"):
        execute(changed(served, argv=("/no/such/program",)), os.environ, say=lambda _: None)


def test_command_that_fails_is_named_without_its_secret(served):
    failing = (
        Command(argv=(sys.executable, "-c", "raise SystemExit(3)", "--api-key", "s3cret"), purpose="p"),
    )
    said = []
    with pytest.raises(ProviderError, match=r"--api-key '\*\*\*' ended with code 3"):
        execute(changed(served, before=failing), os.environ, say=said.append)
    assert "s3cret" not in " ".join(said)


def test_engines_own_exit_code_comes_back_once_it_served(served):
    def end(url):
        import urllib.request

        with pytest.raises(OSError, match=r"."):
            urllib.request.urlopen(url + "/quit", timeout=5)
        return True

    ends = SERVER.replace(
        "def do_GET(self):", "def do_GET(self):\n        if self.path == '/quit': os._exit(5)"
    )
    program = write_program(__import__("pathlib").Path(served.argv[0]).with_name("ends"), ends)
    assert (
        execute(
            changed(served, argv=(str(program), *served.argv[1:])), os.environ, say=lambda _: None, ready=end
        )
        == 5
    )
