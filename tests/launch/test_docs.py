"""The pages of docs/engines say what the program does: their commands are run, their table is compared."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from leadout.launch.engines import ENGINES
from leadout.launch.overview import overview_table
from real_models import real_model

FOLDER = Path(__file__).parents[2] / "docs" / "engines"
PAGES = sorted(FOLDER / f"{name}.md" for name in ("index", *ENGINES))
SHOWN = [
    pytest.param(page.stem, command, shown, marks=[pytest.mark.model] if "smollm2" in command else [])
    for page in PAGES
    for command, shown in re.findall(
        r"```bash\n(.*?)\n```\n\n```sh\n(.*?)\n```\n", page.read_text(encoding="utf-8"), re.DOTALL
    )
]
ALONE = re.findall(
    r"^leadout launch .*--dry-run.*$", (FOLDER / "index.md").read_text(encoding="utf-8"), re.MULTILINE
)


def run(command):
    if "smollm2" in command:
        real_model("smollm2-135m")
    program, *arguments = shlex.split(command)
    assert program == "leadout"
    done = subprocess.run(
        [sys.executable, "-m", "leadout", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def without_folders(text):
    """The folder of a GGUF file differs from machine to machine."""
    return re.sub(r"\S*/(?=[\w.-]+\.gguf)", "", text)


@pytest.mark.parametrize(("page", "command", "shown"), SHOWN)
def test_command_prints_what_the_page_shows(page, command, shown):
    lines = [
        line
        for line in run(command).splitlines()
        if not line.startswith("#") or line.startswith("# on machine")
    ]
    commands = "\n".join(line for line in lines if line != "set -e")
    assert without_folders(commands) == without_folders(
        "\n".join(
            line for line in shown.splitlines() if not line.startswith("#") or line.startswith("# on machine")
        )
    )


@pytest.mark.parametrize("command", ALONE)
def test_command_of_the_overview_runs(command):
    assert run(command).strip()


def test_every_engine_has_a_page_that_is_in_the_table():
    assert {page for page, _, _ in (each.values for each in SHOWN)} == set(ENGINES)
    assert overview_table() in (FOLDER / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "index"], ids=lambda page: page.stem)
def test_page_says_whether_it_was_run_here(page):
    text = page.read_text(encoding="utf-8")
    assert ("**Run here**" in text) != ("**Not run here**" in text)
    assert "**Run here**" in text or f"| {ENGINES[page.stem].installation.assumed} | no |" in overview_table()
