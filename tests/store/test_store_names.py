from __future__ import annotations

import pytest

from leadout.errors import StoreError
from leadout.store.names import CatalogueName, HubName, OllamaName, PathName, parse_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("smollm2-135m", CatalogueName(text="smollm2-135m")),
        ("qwen2.5-coder-0.5b", CatalogueName(text="qwen2.5-coder-0.5b")),
        ("model.gguf", PathName(text="model.gguf")),
        ("MODEL.GGUF", PathName(text="MODEL.GGUF")),
        ("./smollm2-135m", PathName(text="./smollm2-135m")),
        ("~/m.gguf", PathName(text="~/m.gguf")),
        ("user/repo", PathName(text="user/repo")),
        ("hf:user/repo", HubName(repo="user/repo", choice=None)),
        ("hf:user/repo:Q4_K_M", HubName(repo="user/repo", choice="Q4_K_M")),
        ("hf:u-1/r_2.x-GGUF:sub/m.gguf", HubName(repo="u-1/r_2.x-GGUF", choice="sub/m.gguf")),
    ],
)
def test_each_form_of_a_name_is_recognised(text: str, name: object) -> None:
    assert parse_name(text) == name


@pytest.mark.parametrize(
    ("text", "parts", "written"),
    [
        ("ollama:llama3", ("registry.ollama.ai", "library", "llama3", "latest"), "llama3:latest"),
        ("ollama:llama3:8b", ("registry.ollama.ai", "library", "llama3", "8b"), "llama3:8b"),
        ("ollama:aaa/llava:13b", ("registry.ollama.ai", "aaa", "llava", "13b"), "aaa/llava:13b"),
        ("ollama:hf.co/u/r:Q4_K_M", ("hf.co", "u", "r", "Q4_K_M"), "hf.co/u/r:Q4_K_M"),
        ("ollama:localhost:5000/u/r:x", ("localhost:5000", "u", "r", "x"), "localhost:5000/u/r:x"),
    ],
)
def test_ollama_names_default_what_they_leave_out(text: str, parts: tuple[str, ...], written: str) -> None:
    name = parse_name(text)
    assert isinstance(name, OllamaName)
    assert (name.host, name.namespace, name.model, name.tag) == parts
    assert str(name) == written


@pytest.mark.parametrize(
    "text",
    [
        "hf:repo",
        "hf:",
        "hf:a/b/c",
        "hf:../b",
        "hf:a/..",
        "hf:/a/b",
        "hf:a/b c",
        "hf:-a/b",
        "hf:a\\b/c",
        "hf:a/x..y",
    ],
)
def test_a_malformed_or_escaping_hub_repository_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match=r"does not name a hub repository; write hf:user/repo"):
        parse_name(text)


@pytest.mark.parametrize(
    "choice", ["../x.gguf", "/etc/x.gguf", "a/../../x.gguf", "a\\x.gguf", "C:x.gguf", "", "a//x.gguf"]
)
def test_an_escaping_hub_file_is_refused(choice: str) -> None:
    with pytest.raises(StoreError, match=r"neither a quantisation nor a file"):
        parse_name(f"hf:user/repo:{choice}")


@pytest.mark.parametrize(
    "text",
    [
        "ollama:",
        "ollama:../x",
        "ollama:a/../x:1",
        "ollama:x:../../y",
        "ollama:/x",
        "ollama:a/b/c/d",
        "ollama:x:",
        "ollama:..:latest",
        "ollama:a..b",
        "ollama:x:a\\b",
    ],
)
def test_a_malformed_or_escaping_ollama_name_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match=r"does not name an Ollama model; write ollama:name"):
        parse_name(text)


@pytest.mark.parametrize("text", ["", "  ", "a\0b.gguf"])
def test_what_is_no_name_at_all_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(StoreError, match=r"hf:user/repo\[:quant or :file.gguf\], or ollama:name\[:tag\]"):
        parse_name(text)
