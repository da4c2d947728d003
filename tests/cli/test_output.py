"""Tables of any width: words are whole, and nothing is lost."""

import pytest
from commands import leadout
from rich.table import Table

from leadout.cli.output import fill, print_table

NAME = "qwen2.5-coder-1.5b-instruct-q4_k_m"
PROSE = "of another vocabulary that has many of the target's tokens"


def table():
    made = Table(box=None, pad_edge=False)
    for heading in ("name", "what", "draft"):
        made.add_column(heading)
    made.add_row(NAME, PROSE, "qwen2.5-coder-0.5b")
    made.add_row("b", "short", "")
    return made


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 120, 200])
def test_no_word_is_broken_or_lost_at_any_width(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(table())
    printed = capsys.readouterr().out
    words = [word.strip(",") for word in printed.split()]
    assert set(f"{NAME} {PROSE} qwen2.5-coder-0.5b b short".split()) <= set(words)
    assert all(len(line.rstrip()) <= max(width, len(NAME) + 4) for line in printed.splitlines())


def test_a_pipe_without_columns_gets_whole_rows(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(table())
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_lines_end_between_words():
    assert fill("a bb qwen2.5-coder-1.5b /a/long-path/to.gguf", 8, indent=" ").split("\n") == [
        " a bb",
        " qwen2.5-coder-1.5b",
        " /a/long-path/to.gguf",
    ]


@pytest.mark.parametrize("width", ["40", "80"])
def test_models_keep_their_names_whole(width):
    words = leadout("models", COLUMNS=width).stdout.split()
    assert {"smollm2-135m", "qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", "gemma3-270m"} <= set(words)
