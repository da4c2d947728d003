"""What files are, told by their headers and not by their names."""

import numpy as np
import pytest
from model_folder import write_other, write_shape

from leadout.advise.inspect import facts_of, inspect
from leadout.advise.vocabulary import compare
from leadout.models.header import read_header
from leadout.models.remember import Findings
from leadout.models.token_table import table_of_header
from leadout.testing.tiny_gguf import write_split_gguf, write_tiny_gguf


@pytest.mark.parametrize(
    ("architecture", "options", "said"),
    [
        ("clip", {"kind": "mmproj"}, "projector"),
        ("clip", {}, "projector"),
        ("llama", {"kind": "mmproj"}, "projector"),
        ("llama", {"kind": "adapter"}, r"adapter \(LoRA\)"),
        ("llama", {"keys": {"adapter.type": "lora"}}, r"adapter \(LoRA\)"),
        ("llama", {"kind": "imatrix"}, "importance matrix"),
        ("nomic-bert", {}, "embedding or encoder model"),
        ("t5", {}, "embedding or encoder model"),
        ("qwen3", {"keys": {"qwen3.pooling_type": 3}}, "embedding or encoder model"),
        ("llama", {"keys": {"llama.attention.causal": False}}, "embedding or encoder model"),
        ("eagle3", {}, "draft head"),
        ("llama", {"tensors": (), "tokens": 4}, "vocabulary without weights"),
        ("llama", {}, "without a vocabulary"),
    ],
)
def test_a_file_is_what_its_header_says(tmp_path, architecture, options, said):
    path = write_other(tmp_path / "Llama-3-8B-Instruct-Q4_K_M.gguf", architecture, **options)
    facts = inspect(path)
    assert said.replace("\\", "") in facts.problem


def test_a_language_model_has_no_problem(tmp_path):
    facts = inspect(write_tiny_gguf(tmp_path / "mmproj-not-at-all.gguf", tensor_type="F16"))
    assert facts.problem == ""
    assert (facts.architecture, facts.quantisation, facts.n_ctx_train) == ("llama", "F16", 512)
    assert facts.n_params > 0


def test_entries_of_other_types_are_no_answer_and_no_crash(tmp_path):
    arrays = {
        "general.type": [1, 2],
        "llama.pooling_type": [3, 3],
        "llama.attention.causal": [0, 0],
        "tokenizer.ggml.add_bos_token": [0, 0],
        "tokenizer.ggml.bos_token_id": True,
        "tokenizer.ggml.eos_token_id": True,
    }
    path = write_other(tmp_path / "odd.gguf", "llama", keys=arrays, tokens=8)
    header = read_header(path)
    assert facts_of(header).problem == ""
    table = table_of_header(header)
    assert (table.bos, table.eos, table.adds_bos) == (None, None, False)
    assert compare(header, header).is_same


def test_vocabularies_are_told_apart_by_their_digests(tmp_path):
    one, same, other = (
        inspect(write_tiny_gguf(tmp_path / f"{name}.gguf", **options))
        for name, options in (
            ("a", {}),
            ("b", {"n_layers": 1, "seed": 9}),
            ("c", {"tokens": {300: "x"}, "n_vocab": 400}),
        )
    )
    assert one.vocabulary == same.vocabulary != other.vocabulary


def test_what_is_read_for_a_token_leaves_out_a_table_that_is_only_looked_up(tmp_path):
    tensors = {"token_embd.weight": (1000, 10), "blk.0.ffn_up.weight": (20, 10)}
    tied = inspect(
        write_shape(tmp_path / "tied.gguf", n_layers=1, n_head_kv=1, head_size=10, tensors=tensors)
    )
    untied = inspect(
        write_shape(
            tmp_path / "untied.gguf", n_layers=1, n_head_kv=1, head_size=10,
            tensors={**tensors, "output.weight": (1000, 10)},
        )
    )  # fmt: skip
    assert tied.reading.bytes_at(1) == 2 * (10_000 + 200)
    assert untied.reading.bytes_at(1) == 2 * (10_000 + 200)


def test_more_tokens_touch_more_experts(tmp_path):
    path = tmp_path / "moe.gguf"
    from gguf import GGUFWriter

    writer = GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_expert_count(8)
    writer.add_expert_used_count(2)
    writer.add_token_list(["a", "b"])
    writer.add_tensor("blk.0.ffn_up_exps.weight", np.zeros((8, 10, 10), dtype=np.float32))
    writer.add_tensor("output.weight", np.zeros((2, 10), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    reading = inspect(path).reading
    assert reading.bytes_at(1) == 80 + 3200 / 4
    assert reading.bytes_at(2) == 80 + 3200 * (1 - 0.75**2)


def test_a_broken_file_says_why(tmp_path):
    for name, content in (("empty", b""), ("text", b"hello, I am no model"), ("cut", None)):
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(
            content if content is not None else write_tiny_gguf(tmp_path / "x").read_bytes()[:3000]
        )
        assert str(path) in inspect(path).problem
    dangling = tmp_path / "gone.gguf"
    dangling.symlink_to(tmp_path / "nothing")
    assert "which does not exist" in inspect(dangling).problem
    loop = tmp_path / "loop.gguf"
    loop.symlink_to(loop)
    assert str(loop) in inspect(loop).problem


def test_facts_are_remembered_until_the_file_changes(tmp_path):
    path, findings = tmp_path / "model.gguf", Findings("headers", tmp_path / "cache")
    write_tiny_gguf(path, name="before")
    assert inspect(path, findings).name == "before"
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_text(kept.read_text().replace("before", "remembered"))
    assert inspect(path, findings).name == "remembered"
    kept.write_text("{}")
    assert inspect(path, findings).name == "before"
    write_tiny_gguf(path, name="a longer name after")
    assert inspect(path, findings).name == "a longer name after"


def test_a_split_model_is_looked_at_anew_as_its_parts_may_go(tmp_path):
    findings = Findings("headers", tmp_path / "cache")
    parts = write_split_gguf(tmp_path / "split.gguf", 3, n_layers=2)
    assert inspect(parts[0], findings).n_parts == 3
    parts[2].unlink()
    assert "missing" in inspect(parts[0], findings).problem
