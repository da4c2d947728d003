"""The README's clients are run as they stand there, but for the address and the model's name."""

import re
from pathlib import Path

import pytest
from live import live
from serving import replying, served

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
CLIENTS = [each for each in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "127.0.0.1" in each]


def test_there_is_one_for_each_interface():
    assert ["openai" in each for each in CLIENTS] == [True, False]
    assert "ollama" in CLIENTS[1]


@pytest.mark.parametrize("snippet", CLIENTS)
def test_client_of_the_readme_gets_an_answer(snippet, capsys):
    with live(served(replying("The Rhine."), name="qwen2.5-coder-1.5b")) as server:
        names = {}
        exec(snippet.replace("http://127.0.0.1:8080", server.url), names)
        names["client"].close()
    assert capsys.readouterr().out == "The Rhine.\n"
