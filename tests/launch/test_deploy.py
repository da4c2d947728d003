import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from plans import capabilities, plan, without_draft
from test_set_ups import gguf, serving

from leadout.errors import InputError
from leadout.launch.deploy import deployment, save
from leadout.launch.engines import ENGINES
from leadout.launch.prepare import Prepared
from leadout.launch.show import script, to_json


def prepared(made, engine, **known):
    can = replace(capabilities(engine), **known)
    return Prepared(
        engine=ENGINES[engine], plan=made, capabilities=can, setup=ENGINES[engine].set_up(made, can)
    )


def files_of(made, engine):
    return {file.name: file.text for file in deployment(prepared(made, engine), Path("/srv/leadout"))}


def test_script_is_what_would_be_run():
    made = prepared(plan("vllm"), "vllm")
    lines = script(made).splitlines()
    assert lines[0] == "#!/bin/sh"
    assert lines[1] == "# vLLM 0.33.0 (assumed), answers at http://127.0.0.1:8000"
    assert "export HF_HUB_OFFLINE=1" in lines
    assert shlex.split(lines[-1]) == list(made.setup.argv)
    assert to_json(made)["argv"] == list(made.setup.argv)


def test_script_waits_for_the_engine_where_something_follows():
    text = script(prepared(without_draft(gguf("ollama")), "ollama"))
    assert (
        "ollama serve &\nuntil curl -sf -o /dev/null http://127.0.0.1:11434/api/version; do sleep 1; done"
        in text
    )
    assert text.endswith("ollama create leadout-served -f Modelfile\nwait\n")
    assert "cat > Modelfile <<'END'\nFROM /m/t.gguf\nEND\n" in text


def test_unit_runs_the_same_command():
    unit = files_of(plan("vllm"), "vllm")["leadout-vllm.service"]
    assert "WorkingDirectory=/srv/leadout\nEnvironment=HF_HUB_OFFLINE=1\n" in unit
    [start] = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    assert shlex.split(start.removeprefix("ExecStart="))[-4:] == [
        "--speculative-config",
        '{"method": "draft_model", "model": "/m/draft", "num_speculative_tokens": 3}',
        "--per-request-spec-decode-metrics",
        "summary",
    ]


def test_compose_file_has_the_containers_paths_and_publishes_on_loopback_only():
    composed = yaml.safe_load(files_of(plan("vllm", n_gpus=2), "vllm")["compose.yaml"])
    service = composed["services"]["vllm"]
    assert service["image"] == "vllm/vllm-openai:v0.33.0"
    assert (service["entrypoint"], service["command"][:4]) == (
        ["vllm"],
        ["serve", "/models/0", "--host", "0.0.0.0"],
    )
    assert '"model": "/models/1"' in service["command"][service["command"].index("--speculative-config") + 1]
    assert service["volumes"] == ["/m/target:/models/0:ro", "/m/draft:/models/1:ro"]
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    [device] = service["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 2, "capabilities": ["gpu"]}


def test_gguf_files_of_one_folder_are_mounted_once():
    service = yaml.safe_load(files_of(gguf("llama-server"), "llama-server")["compose.yaml"])["services"][
        "llama-server"
    ]
    assert service["volumes"] == ["/m:/models/0:ro"]
    assert service["entrypoint"] == ["/app/llama-server"]
    assert "/models/0/d.gguf" in service["command"]
    assert "deploy" not in service


def test_configuration_goes_into_the_compose_file_and_the_manifest():
    files = files_of(plan("tensorrt-llm"), "tensorrt-llm")
    composed = yaml.safe_load(files["compose.yaml"])
    assert "speculative_model: /models/1" in composed["configs"]["tensorrt-llm"]["content"]
    assert composed["services"]["tensorrt-llm"]["configs"] == [
        {"source": "tensorrt-llm", "target": "/work/tensorrt-llm.yaml"}
    ]
    configuration, workload, service = yaml.safe_load_all(files["kubernetes.yaml"])
    assert "speculative_model: /models/1" in configuration["data"]["tensorrt-llm.yaml"]
    [container] = workload["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": 8000}
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        volume["name"] for volume in workload["spec"]["template"]["spec"]["volumes"]
    }
    assert service["spec"]["selector"] == workload["spec"]["selector"]["matchLabels"]


def test_several_machines_get_a_script_each_and_no_container_files():
    made = replace(plan("vllm"), serving=serving(n_gpus=8, n_nodes=3, head="10.0.0.1"))
    files = files_of(made, "vllm")
    assert {"run.sh", "run-1.sh", "run-2.sh", "leadout-vllm.service"} == set(files)
    assert "--node-rank 2" in files["run-2.sh"]


@pytest.mark.parametrize("engine", ["mlx-lm", "lmstudio"])
def test_engine_of_a_desktop_gets_a_script_only(engine):
    assert {name for name in files_of(plan(engine), engine) if not name.endswith(".json")} == {"run.sh"}


def test_gpu_image_is_not_written_for_a_cpu():
    assert "compose.yaml" not in files_of(plan("vllm", n_gpus=0), "vllm")


def test_secret_is_masked_on_the_screen_and_never_written():
    made = prepared(replace(plan("vllm"), extra=("--api-key", "s3cret")), "vllm")
    assert "s3cret" not in script(made)
    assert "s3cret" not in str(to_json(made))
    with pytest.raises(
        InputError, match="an argument holds a key or a token, which --write would put into files"
    ):
        deployment(made, Path("/x"))


def test_files_are_saved_and_scripts_can_be_run(tmp_path):
    save(deployment(prepared(plan("vllm"), "vllm"), tmp_path / "out"), tmp_path / "out")
    assert (tmp_path / "out" / "run.sh").stat().st_mode & 0o111
    assert 'cd "$(dirname "$0")"' in (tmp_path / "out" / "run.sh").read_text()
    with pytest.raises(InputError, match="cannot write into"):
        save([], tmp_path / "out" / "run.sh" / "x")
