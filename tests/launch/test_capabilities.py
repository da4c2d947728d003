import sys
from dataclasses import replace

import pytest
from programs import write_llama_server, write_program

from leadout.errors import ProviderError
from leadout.launch.capabilities import assumed, probe
from leadout.launch.engines import ENGINES
from leadout.launch.versions import version_of

LLAMA = ENGINES["llama-server"].installation


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0.33.0", (0, 33)),
        ("v0.5.23", (0, 5, 23)),
        ("0.33.0rc1", (0, 33)),
        ("1.2", (1, 2)),
        ("b11434", (11434,)),
        ("unknown", ()),
        ("", ()),
    ],
)
def test_versions_are_compared_as_numbers(text, numbers):
    assert version_of(text) == numbers


def test_older_and_newer():
    assert version_of("0.9.2") < version_of("0.15") < version_of("0.15.1")
    assert version_of("0.15.0") == version_of("0.15")


def test_flags_and_values_come_from_the_programs_own_help(tmp_path):
    found = probe(LLAMA, str(write_llama_server(tmp_path / "llama-server")))
    assert found.release == "0.6.0-dev"
    assert found.knows("--spec-draft-n-max", "--metrics", "-md", "draft-simple", "ngram-mod")
    assert not found.knows("--spec-draft-device")
    assert not found.is_assumed


def test_python_package_is_asked_in_its_own_environment():
    mine = replace(ENGINES["vllm"].installation, distributions=("no-such-package", "pytest"))
    found = probe(mine, sys.executable)
    assert (found.distribution, found.release) == ("pytest", pytest.__version__)


def test_engine_that_is_not_installed_says_how_to_install_it(tmp_path):
    with pytest.raises(
        ProviderError, match=r"no-such-engine is not installed here.*build or fetch llama\.cpp.*--dry-run"
    ):
        probe(replace(LLAMA, program="no-such-engine"))
    with pytest.raises(ProviderError, match="is not installed here or not on PATH"):
        probe(LLAMA, str(tmp_path / "nowhere"))


def test_environment_without_the_package_is_named():
    mine = replace(ENGINES["vllm"].installation, distributions=("no-such-package",))
    with pytest.raises(ProviderError, match="has none of the packages no-such-package"):
        probe(mine, sys.executable)


def test_program_that_hangs_is_given_up(tmp_path):
    with pytest.raises(ProviderError, match="said nothing for 1 s"):
        probe(LLAMA, str(write_program(tmp_path / "llama-server", "import time; time.sleep(60)")), limit_s=1)


def test_program_that_cannot_be_run_is_named(tmp_path):
    broken = tmp_path / "llama-server"
    broken.write_bytes(b"\x00\x01")
    broken.chmod(0o755)
    with pytest.raises(ProviderError, match="cannot be run"):
        probe(LLAMA, str(broken))


def test_program_that_says_nothing_of_itself_is_refused(tmp_path):
    silent = replace(ENGINES["ollama"].installation)
    with pytest.raises(ProviderError, match="does not say its version: 'hello'"):
        probe(silent, str(write_program(tmp_path / "ollama", "print('hello')")))


def test_ollamas_own_version_is_read_beside_its_warning(tmp_path):
    said = "Warning: could not connect to a running Ollama instance\\nWarning: client version is 0.33.0"
    found = probe(ENGINES["ollama"].installation, str(write_program(tmp_path / "ollama", f"print('{said}')")))
    assert found.release == "0.33.0"


@pytest.mark.parametrize("engine", ENGINES)
def test_assumed_version_is_the_newest_read(engine):
    made = assumed(ENGINES[engine].installation)
    assert made.is_assumed
    assert made.release == ENGINES[engine].installation.assumed
