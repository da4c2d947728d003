import pytest
from test_vocabularies import LETTERS, write_folder

from leadout.errors import InputError, ModelFileError, StoreError
from leadout.launch.engines import ENGINES
from leadout.launch.locate import locate
from leadout.testing.tiny_gguf import write_tiny_gguf


def found(name, engine):
    return locate(str(name), ENGINES[engine], offline=True)


def test_gguf_file_for_llama_server(tmp_path):
    path = write_tiny_gguf(tmp_path / "t.gguf", n_ctx_train=512)
    at = found(path, "llama-server")
    assert (at.model.given, at.model.form, at.model.n_ctx_train, at.path) == (str(path), "gguf", 512, path)
    assert at.model.n_bytes == path.stat().st_size


def test_folder_for_vllm(tmp_path):
    folder = write_folder(tmp_path / "m", LETTERS)
    at = found(folder, "vllm")
    assert (at.model.given, at.model.form, at.model.n_bytes) == (str(folder), "folder", 100)
    assert at.model.architectures == ("Qwen2ForCausalLM",)
    assert at.path == folder


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "mlx-lm"])
def test_repository_is_left_to_the_engine(engine):
    at = found("nobody-at-all/no-such-model", engine)
    assert (at.model.given, at.model.form, at.path) == ("nobody-at-all/no-such-model", "name", None)


@pytest.mark.parametrize("engine", ["vllm", "mlx-lm", "lmstudio"])
def test_gguf_file_is_refused_with_what_to_do(engine, tmp_path):
    path = write_tiny_gguf(tmp_path / "t.gguf")
    with pytest.raises(InputError, match=r"takes a model .*, not .*t\.gguf'; (give the|convert|bring the)"):
        found(path, engine)


def test_folder_is_refused_where_gguf_files_are_taken(tmp_path):
    with pytest.raises(InputError, match="is a folder; llama-server takes a GGUF file"):
        found(write_folder(tmp_path / "m", LETTERS), "llama-server")


def test_incomplete_folder_is_named(tmp_path):
    with pytest.raises(ModelFileError, match=r"has no config\.json"):
        found(tmp_path, "vllm")
    folder = write_folder(tmp_path / "m", LETTERS)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelFileError, match="has no weights"):
        found(folder, "vllm")


def test_name_that_leads_nowhere(tmp_path):
    with pytest.raises(InputError, match="'qwen' is no folder here; vLLM takes a model folder"):
        found("qwen", "vllm")
    with pytest.raises(ModelFileError, match="does not exist; check the path"):
        found(tmp_path / "missing.gguf", "llama-server")
    with pytest.raises(StoreError, match="not in the catalogue"):
        found("no-such-name", "llama-server")
    with pytest.raises(InputError, match="the model's name is empty"):
        found(" ", "vllm")


def test_names_of_ollama_and_lm_studio_are_their_own():
    assert found("qwen2.5-coder:1.5b", "ollama").model.given == "qwen2.5-coder:1.5b"
    assert found("ollama:qwen2.5-coder:1.5b", "ollama").model.given == "qwen2.5-coder:1.5b"
    assert found("qwen2.5-coder-1.5b-instruct", "lmstudio").model.given == "qwen2.5-coder-1.5b-instruct"
