"""Files to deploy a set-up: a script, a systemd unit, a compose file and a Kubernetes manifest."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from leadout.errors import InputError
from leadout.launch.plan import Plan, ServedModel
from leadout.launch.prepare import Prepared
from leadout.launch.setup import File, Setup, has_secret
from leadout.launch.show import quoted, script, waiting

_MODELS, _WORK = "/models", "/work"
_ANY = "0.0.0.0"  # inside a container; it is published on the loopback interface only


def deployment(prepared: Prepared, folder: Path) -> list[File]:
    """All files for this set-up, as they would lie in `folder`.

    Raises
    ------
    InputError
        If an argument holds a key or a password, which must not be written down.
    """
    setup, engine = prepared.setup, prepared.engine
    if has_secret(setup.argv):
        raise InputError(
            "an argument holds a key or a token, which --write would put into files; give it to the "
            "engine in "
            "its environment instead"
        )
    files = [File(name="run.sh", text=script(prepared, with_files=False)), *setup.files]
    files += [
        File(name=f"run-{number}.sh", text=f"#!/bin/sh\n# {each.purpose}\n{quoted(each.argv)}\n")
        for number, each in enumerate(setup.elsewhere, 1)
    ]
    if engine.has_unit:
        files.append(File(name=f"leadout-{engine.name}.service", text=_unit(prepared, folder)))
    if engine.image and prepared.plan.serving.n_nodes == 1 and not _is_cpu_of_gpu_image(prepared):
        inside = _in_container(prepared)
        files.append(File(name="compose.yaml", text=_compose(prepared, inside)))
        files.append(File(name="kubernetes.yaml", text=_manifest(prepared, inside)))
    return files


def save(files: list[File], folder: Path) -> None:
    """Write them; those that were there are replaced.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            path = folder / file.name
            path.write_text(file.text, encoding="utf-8")
            if file.name.endswith(".sh"):
                path.chmod(0o755)
    except OSError as error:
        raise InputError(
            f"cannot write into {folder}: {error.strerror or error}; give another folder"
        ) from error


def _is_cpu_of_gpu_image(prepared: Prepared) -> bool:
    return prepared.engine.needs_gpu and prepared.plan.serving.n_gpus == 0


def _unit(prepared: Prepared, folder: Path) -> str:
    setup = prepared.setup
    program = shutil.which(setup.argv[0])
    start = (program, *setup.argv[1:]) if program else ("/usr/bin/env", *setup.argv)
    lines = [
        "[Unit]",
        f"Description={prepared.engine.title}, set up by leadout",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        f"WorkingDirectory={folder}",
        *(
            f"Environment={_for_unit(f'{name}={value}')}"
            for name, value in (*setup.defaults, *setup.environment)
        ),
        f"ExecStart={' '.join(map(_for_unit, start))}",
    ]
    if setup.after:
        commands = "; ".join([waiting(setup), *(quoted(command.argv) for command in setup.after)])
        lines.append(f"ExecStartPost=/bin/sh -c {_for_unit(commands)}")
    lines += ["Restart=on-failure", "TimeoutStopSec=30", "", "[Install]", "WantedBy=default.target"]
    return "\n".join(lines) + "\n"


def _for_unit(text: str) -> str:
    """An argument as systemd reads it: quotes and backslashes escaped, % and $ doubled."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if any(character in text for character in " \t\"'\\;{}[]") else escaped


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inside:
    """The set-up as it is inside a container, and which folders of the machine lie where in there."""

    setup: Setup
    image: str
    mounts: tuple[tuple[str, str], ...]
    n_gpus: int | None


def _in_container(prepared: Prepared) -> _Inside:
    """The same plan with the container's paths, set up by the same function."""
    plan, mounts = prepared.plan, dict[str, str]()

    def moved(model: ServedModel) -> ServedModel:
        if model.form == "name":
            return model
        path = Path(model.given)
        outside = path if model.form == "folder" else path.parent
        place = mounts.setdefault(str(outside), f"{_MODELS}/{len(mounts)}")
        return replace(model, given=place if model.form == "folder" else f"{place}/{path.name}")

    inside: Plan = replace(
        plan,
        target=moved(plan.target),
        draft=None if plan.draft is None else moved(plan.draft),
        serving=replace(plan.serving, host=_ANY),
    )
    engine = prepared.engine
    capabilities = replace(
        prepared.capabilities, program=engine.image_program, python="python3", distribution=""
    )
    n_gpus = plan.serving.n_gpus
    return _Inside(
        setup=engine.set_up(inside, capabilities),
        image=engine.image.format(release=capabilities.release),
        mounts=tuple(mounts.items()),
        n_gpus=(1 if engine.needs_gpu else 0) if n_gpus is None else n_gpus,
    )


def _environment(inside: _Inside) -> dict[str, str]:
    return dict((*inside.setup.defaults, *inside.setup.environment))


def _compose(prepared: Prepared, inside: _Inside) -> str:
    port, setup = prepared.plan.serving.port, inside.setup
    service: dict[str, object] = {
        "image": inside.image,
        "entrypoint": [setup.argv[0]],
        "command": _doubled(setup.argv[1:]),
        "working_dir": _WORK,
        "ports": [f"127.0.0.1:{port}:{port}"],
        "volumes": [f"{outside}:{place}:ro" for outside, place in inside.mounts],
        "configs": [{"source": _key(file), "target": f"{_WORK}/{file.name}"} for file in setup.files],
        "restart": "unless-stopped",
    }
    service = {name: value for name, value in service.items() if value}
    if _environment(inside):
        service["environment"] = _environment(inside)
    if inside.n_gpus:
        devices = [{"driver": "nvidia", "count": inside.n_gpus, "capabilities": ["gpu"]}]
        service["deploy"] = {"resources": {"reservations": {"devices": devices}}}
        service["shm_size"] = "8gb"
    composed: dict[str, object] = {"services": {prepared.engine.name: service}}
    if setup.files:
        composed["configs"] = {_key(file): {"content": file.text} for file in setup.files}
    return _header(prepared, inside) + _dump(composed)


def _key(file: File) -> str:
    return file.name.partition(".")[0].lower()


def _doubled(argv: tuple[str, ...]) -> list[str]:
    """Arguments for a compose file, which replaces ``$NAME``."""
    return [argument.replace("$", "$$") for argument in argv]


def _manifest(prepared: Prepared, inside: _Inside) -> str:
    name, port, setup = f"leadout-{prepared.engine.name}", prepared.plan.serving.port, inside.setup
    container: dict[str, object] = {
        "name": prepared.engine.name,
        "image": inside.image,
        "command": [setup.argv[0]],
        "args": list(setup.argv[1:]),
        "workingDir": _WORK,
        "ports": [{"containerPort": port}],
        "env": [{"name": key, "value": value} for key, value in _environment(inside).items()],
        "readinessProbe": {
            "httpGet": {"path": setup.health, "port": port},
            "periodSeconds": 5,
            "failureThreshold": 180,
        },
        "volumeMounts": [
            *(
                {"name": f"models-{at}", "mountPath": place, "readOnly": True}
                for at, (_, place) in enumerate(inside.mounts)
            ),
            {"name": "work", "mountPath": _WORK},
            {"name": "memory", "mountPath": "/dev/shm"},
        ],
    }
    if inside.n_gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": inside.n_gpus}}
    volumes: list[Mapping[str, object]] = [
        *(
            {"name": f"models-{at}", "hostPath": {"path": outside, "type": "Directory"}}
            for at, (outside, _) in enumerate(inside.mounts)
        ),
        {"name": "work", "configMap": {"name": name}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
    ]
    labels = {"app": name}
    configuration = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {file.name: file.text for file in setup.files},
    }
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "volumes": volumes},
            },
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": labels, "ports": [{"port": port, "targetPort": port}]},
    }
    return _header(prepared, inside) + "---\n".join(
        _dump(each) for each in (configuration, workload, service)
    )


def _header(prepared: Prepared, inside: _Inside) -> str:
    lines = [
        f"# {prepared.engine.title} {prepared.capabilities.release}, set up by leadout; check the image's tag"
    ]
    lines += [f"# once it answers: {quoted(command.argv)}" for command in inside.setup.after]
    return "\n".join(lines) + "\n"


def _dump(value: object) -> str:
    return str(yaml.safe_dump(value, sort_keys=False, width=100, allow_unicode=True))
