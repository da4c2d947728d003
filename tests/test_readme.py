"""The README's commands are run as they stand there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from real_models import real_model

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


COMMANDS = [line for block in blocks("bash") for line in block.splitlines() if line.strip()]


def run(*arguments):
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
        env={**os.environ, "LEADOUT_DEBUG": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_command_named_there_exists():
    named = set(re.findall(r"^leadout (\w+)", "\n".join(blocks("console") + blocks("bash")), re.MULTILINE))
    assert {"run", "chat", "serve", "pick", "cache"} <= named
    for command in sorted(named):
        assert run("-m", "leadout", command, "--help")


def test_the_two_set_up_commands_are_make_targets():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = [line.split()[1] for block in blocks("console") for line in block.splitlines() if "make " in line]
    assert named[:2] == ["demo", "test"]
    assert set(named) <= set(targets)


@pytest.mark.model
@pytest.mark.parametrize("command", COMMANDS)
def test_readme_command_runs(command):
    real_model("smollm2-135m")
    program, *arguments = shlex.split(command)
    assert program == "leadout"
    assert run("-m", "leadout", *arguments).strip()


@pytest.mark.model
def test_readme_python_runs():
    real_model("smollm2-135m")
    [snippet, *_] = blocks("python")  # the rest needs a server: tests/server/test_readme_clients.py
    assert run("-c", snippet).strip()


@pytest.mark.parametrize("link", re.findall(r"\]\((?!http)([^)#]+)\)", README))
def test_readme_links_lead_somewhere(link):
    assert (ROOT / link).exists()
