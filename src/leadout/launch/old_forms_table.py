"""Old and invented forms of every engine: what was written, what it does today, what to write. Data only."""

from __future__ import annotations

from leadout.launch.old_forms import OldForm

_SPEC_CONFIG = '--speculative-config \'{"method": "draft_model", "model": D, "num_speculative_tokens": K}\''
_LEADOUTS = "leadout launch ... --draft MODEL -k K, which writes the current form"
_LOSSY = "leave it out; it makes the output differ from the target's"

VLLM = (
    OldForm(
        engine="vllm",
        where="key",
        name="speculative_model",
        why="LLM(speculative_model=...) of 0.5 to 0.8 is a TypeError",
        today='LLM(model=T, speculative_config={"method": "draft_model", "model": D, ...})',
    ),
    OldForm(
        engine="vllm",
        where="flag",
        name="--speculative-model",
        why="the flag of 0.5 to 0.8 is not known any more",
        today=_SPEC_CONFIG,
    ),
    OldForm(
        engine="vllm",
        where="flag",
        name="--num-speculative-tokens",
        why="the flag of 0.5 to 0.8 is not known any more",
        today=_SPEC_CONFIG,
    ),
    OldForm(
        engine="vllm",
        where="flag",
        name="--(ngram-prompt-lookup-(max|min)|speculative-(max-model-len|draft-tensor-parallel-size))",
        why="the flag of 0.5 to 0.8 is not known any more",
        today="a key of --speculative-config: prompt_lookup_max, prompt_lookup_min, max_model_len, "
        "draft_tensor_parallel_size",
    ),
    OldForm(
        engine="vllm",
        where="key",
        name="(speculative_)?disable_by_batch_size",
        since="0.17",
        why="the key was dropped after 0.16 and is an error",
        today="num_speculative_tokens_per_batch_size: [[low, high, k], ...]",
    ),
    OldForm(
        engine="vllm",
        where="flag",
        name="--speculative-disable-by-batch-size",
        why="the flag of 0.5 to 0.8 is not known any more",
        today="num_speculative_tokens_per_batch_size: [[low, high, k], ...] in --speculative-config",
    ),
    OldForm(
        engine="vllm",
        where="key",
        name="speculative_token_tree",
        since="0.21",
        why="token trees were removed after 0.20 and the key is an error",
        today="a chain: num_speculative_tokens alone",
    ),
    OldForm(
        engine="vllm",
        where="key",
        name="rejection_sample_method",
        value="strict|probabilistic",
        since="0.21",
        why="the values of 0.20 are not known any more",
        today='rejection_sample_method "standard" with draft_sample_method "greedy" or "probabilistic"',
    ),
    OldForm(
        engine="vllm",
        where="key",
        name="rejection_sample_method",
        value="fly|synthetic",
        why="this method is not lossless",
        today='"standard" or "block"',
    ),
    OldForm(
        engine="vllm",
        where="flag",
        name="--spec-(method|model|tokens)",
        before="0.22",
        why="these shortcuts came with 0.22",
        today=_SPEC_CONFIG,
    ),
    OldForm(
        engine="vllm",
        where="key",
        name="use_heterogeneous_vocab",
        before="0.26",
        why="the key came with 0.26 and is an error before",
        today="a draft model of the target's vocabulary, or a newer vLLM",
    ),
    OldForm(
        engine="vllm",
        where="flag",
        name="--per-request-spec-decode-metrics",
        before="0.30",
        why="the flag came with 0.30",
        today="the counters at /metrics",
    ),
    OldForm(
        engine="vllm",
        where="key",
        name="method",
        value="medusa|mlp_speculator",
        since="0.33",
        why="these heads were removed in 0.33",
        today='"draft_model", "ngram", "eagle3" or "mtp"',
    ),
    OldForm(
        engine="vllm",
        where="key",
        name="method",
        value=r"(?!mtp$)\w+_mtp",
        why="the model's own name for MTP is mapped to mtp with a warning",
        today='method "mtp"',
        is_fatal=False,
    ),
    OldForm(
        engine="vllm",
        where="key",
        name="tensor_parallel_size",
        why="inside speculative_config it is an error",
        today="draft_tensor_parallel_size, which must be 1 or the target's",
    ),
)

SGLANG = (
    OldForm(
        engine="sglang",
        where="flag",
        name="--speculative-accept-threshold-(single|acc)",
        value=r"0?\.\d+|0",
        why="below 1 it accepts tokens that the target would not have drawn",
        today=_LOSSY,
    ),
    OldForm(
        engine="sglang",
        where="flag",
        name="--speculative-algorithm",
        value="SUFFIX",
        why="SGLang has no suffix decoding (its pull request was closed)",
        today="--draft ngram",
    ),
    OldForm(
        engine="sglang",
        where="flag",
        name="--decoupled-spec-.*",
        why="in 0.5.23 it only builds a configuration that no worker reads: a drafter in a process of "
        "its own "
        "is announced, not usable",
        today="a draft model in the same process: --draft MODEL",
    ),
    OldForm(
        engine="sglang",
        where="variable",
        name="SGLANG_SIMULATE_ACC_LEN",
        why="it fakes the acceptance and with it the output",
        today="unset it",
    ),
    OldForm(
        engine="sglang",
        where="variable",
        name="SGLANG_ENABLE_SPEC_V2",
        why="there is one worker path left, and it is that one",
        today="unset it",
        is_fatal=False,
    ),
)

TENSORRT_LLM = (
    OldForm(
        engine="tensorrt-llm",
        where="flag",
        name="--speculative[_-](model|model[_-]dir|config|decoding[_-]mode)|--max[_-]draft[_-]len",
        why="trtllm-serve has no such flag; --speculative_decoding_mode belongs to trtllm-build, of "
        "the engine "
        "backend that is being retired",
        today="a section speculative_config in the YAML file of --config: " + _LEADOUTS,
    ),
    OldForm(
        engine="tensorrt-llm",
        where="key",
        name="decoding_type",
        value="Eagle3",
        before="1.3",
        why="1.2 has no key Eagle3",
        today="decoding_type: Eagle (it means EAGLE-3)",
    ),
    OldForm(
        engine="tensorrt-llm",
        where="key",
        name="decoding_type",
        value="Eagle",
        since="1.3",
        why="newer versions call it Eagle3",
        today="decoding_type: Eagle3",
        is_fatal=False,
    ),
    OldForm(
        engine="tensorrt-llm",
        where="key",
        name="decoding_type",
        value="SA|PARD|DFlash",
        before="1.3",
        why="1.2 does not have it",
        today="DraftTarget, NGram, Eagle or MTP, or a newer TensorRT-LLM",
    ),
    OldForm(
        engine="tensorrt-llm",
        where="key",
        name="eagle3_one_model",
        value="False",
        since="1.3",
        why="the two-model path was removed and this is an error",
        today="leave it out",
    ),
    OldForm(
        engine="tensorrt-llm",
        where="key",
        name="use_relaxed_acceptance_for_thinking",
        value="True",
        why="it is lossy: tokens are accepted that the target would not have drawn",
        today=_LOSSY,
    ),
    OldForm(
        engine="tensorrt-llm",
        where="key",
        name="acceptance_window|acceptance_length_threshold",
        why="together they turn speculation off for good once acceptance was low",
        today="leave them out, and probe the server now and then",
        is_fatal=False,
    ),
    OldForm(
        engine="tensorrt-llm",
        where="key",
        name="max_concurrency|draft_len_schedule",
        why="it turns speculation off at larger batches without a word",
        today="leave it out, or know that it does",
        is_fatal=False,
    ),
)

OLLAMA = (
    OldForm(
        engine="ollama",
        where="variable",
        name="OLLAMA_(SPECULATIVE|DRAFT)_.*",
        why="Ollama has no such variable (OLLAMA_DRAFT_GPU_DEVS was in a pull request that was "
        "closed), so it "
        "does nothing",
        today="DRAFT <path> and PARAMETER draft_num_predict N in a Modelfile: leadout launch ollama T "
        "--draft "
        "FILE writes it",
    ),
    OldForm(
        engine="ollama",
        where="flag",
        name="--draft(-model)?|--speculative.*|--draft-quantize",
        why="ollama serve has no such flag, and ollama create --draft-quantize needs a DRAFT in the "
        "Modelfile",
        today="DRAFT <path> in a Modelfile: leadout launch ollama T --draft FILE writes it",
    ),
)

MLX_LM = (
    OldForm(
        engine="mlx-lm",
        where="flag",
        name="--(prompt-lookup.*|ngram.*|mtp.*|eagle.*|speculative.*)",
        why="MLX-LM drafts with a draft model only: its n-gram pull request was closed and MTP weights are "
        "dropped when a model is loaded",
        today="--draft MODEL",
    ),
    OldForm(
        engine="mlx-lm",
        where="variable",
        name="MLX_(LM_)?(DRAFT|NUM_DRAFT|SPECULATIVE).*",
        why="MLX-LM reads no such variable, so it does nothing",
        today="--draft MODEL -k K",
    ),
)

LMSTUDIO = (
    OldForm(
        engine="lmstudio",
        where="flag",
        name="--(draft.*|speculative.*)",
        why="neither lms server start nor lms load has such a flag",
        today='"draft_model": KEY in the body of each request (from 0.3.10 on)',
    ),
    OldForm(
        engine="lmstudio",
        where="variable",
        name="LM_?STUDIO_(DRAFT|SPECULATIVE).*",
        why="LM Studio reads no such variable, so it does nothing",
        today='"draft_model": KEY in the body of each request (from 0.3.10 on)',
    ),
)

LLAMA_SERVER = (
    OldForm(
        engine="llama-server",
        where="flag",
        name="--draft|--draft-n|--draft-max",
        needs="--spec-draft-n-max",
        why="it was renamed, and the server ends with a hint",
        today="--spec-draft-n-max N: leadout launch ... -k N",
    ),
    OldForm(
        engine="llama-server",
        where="flag",
        name="--draft-n-min|--draft-min",
        needs="--spec-draft-n-max",
        why="it was renamed, and the server ends with a hint",
        today="--spec-draft-n-min N",
    ),
    OldForm(
        engine="llama-server",
        where="flag",
        name="--draft-p-min",
        needs="--spec-draft-n-max",
        why="it still works, but its default fell from 0.75 to 0 in b9235",
        today="--spec-draft-p-min P, which leadout sets to 0.5",
        is_fatal=False,
    ),
    OldForm(
        engine="llama-server",
        where="flag",
        name="-cd|--ctx-size-draft",
        needs="--spec-draft-n-max",
        why="it is gone, and the server ends with invalid argument",
        today="leave it out: the draft has the target's context; -ctkd and -ctvd make its cache smaller",
    ),
    OldForm(
        engine="llama-server",
        where="flag",
        name="--spec-ngram-(size-n|size-m|min-hits)",
        needs="--spec-draft-n-max",
        why="each kind of n-gram has flags of its own now, and the server ends with a hint",
        today="--spec-ngram-<type>-..., such as --spec-ngram-map-k-size-n",
    ),
    OldForm(
        engine="llama-server",
        where="flag",
        name="--spec-replace",
        needs="--spec-draft-n-max",
        why="drafting across vocabularies was removed, and the server ends with invalid argument",
        today="a draft model of the target's vocabulary, or leadout's own engine",
    ),
    OldForm(
        engine="llama-server",
        where="flag",
        name="--spec-draft-conf-min",
        why="the documentation names it, but no build has it",
        today="--spec-draft-p-min P",
    ),
    OldForm(
        engine="llama-server",
        where="flag",
        name="--spec-type",
        value="(.*,)?draft(,.*)?",
        needs="draft-simple",
        why="the type draft was renamed",
        today="--spec-type draft-simple: leadout launch ... --draft MODEL",
    ),
    OldForm(
        engine="llama-server",
        where="flag",
        name="--spec-autotune|--spec-stage",
        why="it is ik_llama.cpp's, not llama.cpp's",
        today="-k K here, or leadout's own engine, which chooses the length as it goes",
    ),
    OldForm(
        engine="llama-server",
        where="variable",
        name="LLAMA_ARG_DRAFT_(MAX|MIN)",
        needs="--spec-draft-n-max",
        why="it was renamed, and the server ends with a hint",
        today="LLAMA_ARG_SPEC_DRAFT_N_MAX, LLAMA_ARG_SPEC_DRAFT_N_MIN, or -k K",
    ),
    OldForm(
        engine="llama-server",
        where="variable",
        name="LLAMA_ARG_DRAFT_P_MIN",
        needs="--spec-draft-n-max",
        why="it was renamed and is ignored without a word",
        today="LLAMA_ARG_SPEC_DRAFT_P_MIN",
    ),
    OldForm(
        engine="llama-server",
        where="key",
        name=r"speculative\.(n_max|n_min|p_min)",
        needs="--spec-draft-n-max",
        why="fields of a request are ignored without a word, though the README still shows them",
        today="-k K when the server is started; nothing can be changed while it runs",
    ),
)

TABLE = (*VLLM, *SGLANG, *TENSORRT_LLM, *OLLAMA, *MLX_LM, *LMSTUDIO, *LLAMA_SERVER)


def table_of(engine: str) -> tuple[OldForm, ...]:
    """The forms of one engine."""
    return tuple(form for form in TABLE if form.engine == engine)
