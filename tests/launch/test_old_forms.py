"""Every old or invented form is recognised and answered with today's."""

import re

import pytest
from plans import capabilities

from leadout.launch.combinations import find_useless
from leadout.launch.old_forms import OldForm, find_old_forms, seen_in
from leadout.launch.old_forms_table import TABLE, table_of

# (engine, version, arguments, variables, what the message says)
OLD = [
    ("vllm", "0.33.0", ["speculative_model=D"], {}, r"^speculative_model: .*0\.5 to 0\.8.*speculative_config="),  # noqa: E501
    ("vllm", "0.33.0", ["--speculative-model", "D"], {}, "--speculative-config"),
    ("vllm", "0.33.0", ["--num-speculative-tokens=5"], {}, "num_speculative_tokens"),
    ("vllm", "0.33.0", ["--ngram-prompt-lookup-max", "4"], {}, "prompt_lookup_max"),
    ("vllm", "0.33.0", ["--speculative-draft-tensor-parallel-size", "1"], {}, "draft_tensor_parallel_size"),
    ("vllm", "0.33.0", ["-sc", '{"disable_by_batch_size": 8}'], {}, "num_speculative_tokens_per_batch_size"),
    ("vllm", "0.33.0", ["--speculative-disable-by-batch-size", "8"], {}, "num_speculative_tokens_per_batch_size"),  # noqa: E501
    ("vllm", "0.22.1", ["-sc", '{"speculative_token_tree": "[(0,)]"}'], {}, "a chain"),
    ("vllm", "0.22.1", ["-sc", '{"rejection_sample_method": "strict"}'], {}, '"standard"'),
    ("vllm", "0.33.0", ["-sc.rejection-sample-method", "probabilistic"], {}, "draft_sample_method"),
    ("vllm", "0.33.0", ["-sc", '{"rejection_sample_method": "fly"}'], {}, "not lossless"),
    ("vllm", "0.33.0", ["-sc", '{"rejection_sample_method": "synthetic"}'], {}, "not lossless"),
    ("vllm", "0.20.2", ["--spec-method", "ngram"], {}, r"came with 0\.22.*--speculative-config"),
    ("vllm", "0.20.2", ["--spec-model", "D"], {}, r"came with 0\.22"),
    ("vllm", "0.20.2", ["--spec-tokens", "3"], {}, r"came with 0\.22"),
    ("vllm", "0.24.0", ["-sc", '{"use-heterogeneous-vocab": true}'], {}, r"came with 0\.26"),
    ("vllm", "0.28.0", ["--per-request-spec-decode-metrics", "summary"], {}, "/metrics"),
    ("vllm", "0.33.0", ["-sc", '{"method": "medusa"}'], {}, r"removed in 0\.33"),
    ("vllm", "0.33.0", ["-sc", '{"method": "mlp_speculator"}'], {}, r"removed in 0\.33"),
    ("vllm", "0.33.0", ["-sc", '{"method": "deepseek_mtp"}'], {}, 'method "mtp"'),
    ("vllm", "0.33.0", ["speculative_config={'method': 'qwen3_next_mtp'}"], {}, 'method "mtp"'),
    ("vllm", "0.33.0", ["-sc", '{"tensor_parallel_size": 2}'], {}, "draft_tensor_parallel_size"),
    ("sglang", "0.5.23", ["--speculative-accept-threshold-single", "0.9"], {}, "would not have drawn"),
    ("sglang", "0.5.23", ["--speculative-accept-threshold-acc=0.5"], {}, "would not have drawn"),
    ("sglang", "0.5.23", ["--speculative-algorithm", "SUFFIX"], {}, "--draft ngram"),
    ("sglang", "0.5.23", ["--decoupled-spec-role", "drafter"], {}, "announced, not usable"),
    ("sglang", "0.5.23", ["--decoupled-spec-bind-endpoint", "x"], {}, "announced, not usable"),
    ("sglang", "0.5.23", [], {"SGLANG_SIMULATE_ACC_LEN": "3"}, "fakes the acceptance"),
    ("sglang", "0.5.23", [], {"SGLANG_ENABLE_SPEC_V2": "1"}, "one worker path"),
    ("tensorrt-llm", "1.2.0", ["--speculative_model", "D"], {}, "speculative_config in the YAML"),
    ("tensorrt-llm", "1.2.0", ["--speculative-config", "x"], {}, "no such flag"),
    ("tensorrt-llm", "1.2.0", ["--speculative_decoding_mode", "draft"], {}, "trtllm-build"),
    ("tensorrt-llm", "1.2.0", ["decoding_type=Eagle3"], {}, "decoding_type: Eagle "),
    ("tensorrt-llm", "1.4.0", ["decoding_type=Eagle"], {}, "decoding_type: Eagle3"),
    ("tensorrt-llm", "1.2.0", ["decoding_type=SA"], {}, "newer TensorRT-LLM"),
    ("tensorrt-llm", "1.4.0", ["eagle3_one_model=False"], {}, "two-model path was removed"),
    ("tensorrt-llm", "1.2.0", ["use_relaxed_acceptance_for_thinking=True"], {}, "lossy"),
    ("tensorrt-llm", "1.2.0", ["acceptance_window=100"], {}, "off for good"),
    ("tensorrt-llm", "1.2.0", ["acceptance_length_threshold=1.2"], {}, "off for good"),
    ("tensorrt-llm", "1.2.0", ["max_concurrency=4"], {}, "larger batches"),
    ("tensorrt-llm", "1.2.0", ["draft_len_schedule={}"], {}, "larger batches"),
    ("ollama", "0.33.0", [], {"OLLAMA_SPECULATIVE_MODEL": "q"}, r"no such variable.*DRAFT <path>"),
    ("ollama", "0.33.0", [], {"OLLAMA_DRAFT_GPU_DEVS": "0"}, "pull request that was closed"),
    ("ollama", "0.33.0", ["--draft-model", "q"], {}, "DRAFT <path>"),
    ("ollama", "0.33.0", ["--draft-quantize", "int4"], {}, "needs a DRAFT"),
    ("mlx-lm", "0.32.2", ["--ngram-size", "3"], {}, "n-gram pull request was closed"),
    ("mlx-lm", "0.32.2", ["--mtp"], {}, "MTP weights are dropped"),
    ("mlx-lm", "0.32.2", [], {"MLX_DRAFT_MODEL": "d"}, "no such variable"),
    ("lmstudio", "0.4.20", ["--draft-model", "d"], {}, "in the body of each request"),
    ("lmstudio", "0.4.20", [], {"LM_STUDIO_DRAFT_MODEL": "d"}, "no such variable"),
    ("llama-server", "", ["--draft-max", "16"], {}, "--spec-draft-n-max N"),
    ("llama-server", "", ["--draft", "16"], {}, "--spec-draft-n-max N"),
    ("llama-server", "", ["--draft-n", "16"], {}, "--spec-draft-n-max N"),
    ("llama-server", "", ["--draft-min", "1"], {}, "--spec-draft-n-min N"),
    ("llama-server", "", ["--draft-p-min", "0.75"], {}, r"from 0\.75 to 0"),
    ("llama-server", "", ["-cd", "2048"], {}, "invalid argument"),
    ("llama-server", "", ["--ctx-size-draft", "2048"], {}, "-ctkd"),
    ("llama-server", "", ["--spec-ngram-size-n", "3"], {}, "--spec-ngram-<type>-"),
    ("llama-server", "", ["--spec-ngram-size-m", "3"], {}, "--spec-ngram-<type>-"),
    ("llama-server", "", ["--spec-ngram-min-hits", "3"], {}, "--spec-ngram-<type>-"),
    ("llama-server", "", ["--spec-replace", "a", "b"], {}, "across vocabularies was removed"),
    ("llama-server", "", ["--spec-draft-conf-min", "0.4"], {}, "no build has it"),
    ("llama-server", "", ["--spec-type", "draft"], {}, "--spec-type draft-simple"),
    ("llama-server", "", ["--spec-autotune"], {}, r"ik_llama\.cpp's"),
    ("llama-server", "", ["--spec-stage", "x"], {}, r"ik_llama\.cpp's"),
    ("llama-server", "", [], {"LLAMA_ARG_DRAFT_MAX": "16"}, "LLAMA_ARG_SPEC_DRAFT_N_MAX"),
    ("llama-server", "", [], {"LLAMA_ARG_DRAFT_MIN": "1"}, "LLAMA_ARG_SPEC_DRAFT_N_MIN"),
    ("llama-server", "", [], {"LLAMA_ARG_DRAFT_P_MIN": "0.75"}, "ignored without a word.*LLAMA_ARG_SPEC_DRAFT_P_MIN"),  # noqa: E501
    ("llama-server", "", ["speculative.n_max=8"], {}, "ignored without a word"),
    ("llama-server", "", ['{"speculative.p_min": 0.5}'], {}, "ignored without a word"),
]  # fmt: skip


def found(engine, release, extra, environment):
    return find_old_forms(table_of(engine), capabilities(engine, release), extra, environment)


@pytest.mark.parametrize(("engine", "release", "extra", "environment", "said"), OLD)
def test_old_form_is_answered_with_todays(engine, release, extra, environment, said):
    [only] = found(engine, release, extra, environment)
    assert re.search(said, only.message)
    assert "; today: " in only.message


def test_every_entry_of_the_table_is_met_by_a_case():
    met = {
        id(each.form) for engine, release, extra, env, _ in OLD for each in found(engine, release, extra, env)
    }
    assert [form.name for form in TABLE if id(form) not in met] == []


@pytest.mark.parametrize(
    ("engine", "release", "extra"),
    [
        ("vllm", "0.16.0", ["-sc", '{"disable_by_batch_size": 8}']),
        ("vllm", "0.20.0", ["-sc", '{"speculative_token_tree": "x", "rejection_sample_method": "strict"}']),
        ("vllm", "0.22.1", ["--spec-method", "ngram"]),
        ("vllm", "0.32.0", ["-sc", '{"method": "medusa"}']),
        ("vllm", "0.33.0", ["-sc", '{"method": "mtp", "rejection_sample_method": "block"}']),
        ("vllm", "0.33.0", ["--tensor-parallel-size", "2"]),
        ("sglang", "0.5.23", ["--speculative-accept-threshold-single", "1.0"]),
        ("tensorrt-llm", "1.2.0", ["decoding_type=Eagle"]),
        ("llama-server", "", ["--spec-type", "draft-simple,ngram-mod"]),
        ("llama-server", "", ["--spec-ngram-map-k-size-n", "3"]),
    ],
)  # fmt: skip
def test_form_that_this_version_has_is_let_through(engine, release, extra):
    assert found(engine, release, extra, {}) == []


def test_older_llama_server_keeps_its_own_flags():
    older = capabilities("llama-server")
    without = type(older)(program="p", release="b5000", words=frozenset({"--draft-max", "--metrics"}))
    assert find_old_forms(table_of("llama-server"), without, ["--draft-max", "16", "-cd", "0"], {}) == []


def test_values_of_variables_are_never_in_a_message():
    form = OldForm(engine="x", where="variable", name="X_KEY", today="nothing", why="it is gone")
    [only] = find_old_forms([form], capabilities("vllm"), [], {"X_KEY": "s3cret"})
    assert "s3cret" not in only.message


def test_keys_are_found_in_json_in_keywords_and_behind_dots():
    seen = [
        (each.where, each.name, each.value)
        for each in seen_in(["-c", '{"a-b": {"c": 1}}', "x='y'", "--s.k=2"])
    ]
    assert seen == [
        ("flag", "-c", '{"a-b": {"c": 1}}'),
        ("key", "a_b", '{"c": 1}'),
        ("key", "c", "1"),
        ("key", "x", "y"),
        ("flag", "--s.k", "2"),
        ("key", "k", "2"),
    ]


@pytest.mark.parametrize(
    ("engine", "extra", "said"),
    [
        ("sglang", ["--speculative-draft-model-path", "D"], "ignores it without a word"),
        ("sglang", ["--speculative-draft-model", "D"], "--speculative-algorithm STANDALONE"),
        ("sglang", ["--speculative-num-steps", "3"], "all or none"),
        ("llama-server", ["-md", "D"], "frees it again and says nothing"),
        ("llama-server", ["--model-draft", "D"], "--spec-type draft-simple"),
        ("llama-server", ["--spec-type", "draft-simple"], "answers at plain speed"),
        ("vllm", ["-sc", '{"model": "D", "num_speculative_tokens": 3}'], "has a model and no method"),
        ("vllm", ["--speculative-config", "{'model': 1}"], "is no JSON object"),
    ],
)  # fmt: skip
def test_flag_that_does_nothing_alone_is_named(engine, extra, said):
    [only] = find_useless(engine, capabilities(engine), extra)
    assert said in only


@pytest.mark.parametrize(
    ("engine", "extra"),
    [
        ("sglang", ["--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path", "D"]),
        ("sglang", ["--speculative-num-draft-tokens", "8"]),
        ("llama-server", ["-md", "D", "--spec-type", "draft-simple"]),
        ("vllm", ["-sc", '{"method": "ngram"}']),
        ("ollama", []),
    ],
)  # fmt: skip
def test_complete_flags_are_let_through(engine, extra):
    assert find_useless(engine, capabilities(engine), extra) == []
