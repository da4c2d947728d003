"""Tiny packages with model data in them, and the ways to serve them to a real pip."""

from __future__ import annotations

import base64
import functools
import hashlib
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from leadout.store.catalogue import CatalogueModel, HubFile, Wheel
from leadout.store.resolve import resolve
from leadout.store.settings import StoreSettings


def random_bytes(n_bytes: int, seed: int = 0) -> bytes:
    """Bytes that do not compress, the same for the same seed."""
    blocks = (hashlib.sha256(f"{seed}:{i}".encode()).digest() for i in range(n_bytes // 32 + 1))
    return b"".join(blocks)[:n_bytes]


def tiny_model(data: bytes, n_parts: int, hub: HubFile | None = None) -> CatalogueModel:
    """A catalogue entry whose file is `data`, cut into `n_parts` packages."""
    cuts = [len(data) * i // n_parts for i in range(n_parts + 1)]
    wheels = tuple(
        Wheel(
            project=f"tiny-model-part{i + 1}",
            version="1.0.0",
            member=f"tiny_model_part{i + 1}/data/part{i + 1}.bin",
            n_bytes=cuts[i + 1] - cuts[i],
        )
        for i in range(n_parts)
    )
    return CatalogueModel(
        name="tiny-model",
        title="Tiny",
        licence="Apache-2.0",
        file="tiny.gguf",
        n_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        hub=hub,
        wheels=wheels,
    )


def write_wheel(folder: Path, wheel: Wheel, data: bytes, *, member: str | None = None) -> Path:
    """Build a valid wheel of `wheel` that holds `data`; `member` overrides where."""
    name = f"{wheel.project.replace('-', '_')}-{wheel.version}"
    info = f"{name}.dist-info"
    files = {
        member or wheel.member: data,
        f"{wheel.project.replace('-', '_')}/__init__.py": b"raise RuntimeError('wheels are data')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {wheel.project}\nVersion: 1.0.0".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{n},sha256={_urlsafe(d)},{len(d)}\n" for n, d in files.items()) + f"{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member_name, content in files.items():
            archive.writestr(member_name, content)
        archive.writestr(f"{info}/RECORD", record)
    return path


def write_index(folder: Path, model: CatalogueModel, data: bytes) -> list[Path]:
    """All wheels of `model`, whose file is `data`."""
    paths, start = [], 0
    for wheel in model.wheels:
        paths.append(write_wheel(folder, wheel, data[start : start + wheel.n_bytes]))
        start += wheel.n_bytes
    return paths


class Gate:
    """Which wheels the index has been asked for, and which of them it holds back."""

    def __init__(self) -> None:
        self.requested: list[str] = []
        self.held: set[str] = set()
        self.asked = threading.Event()
        self.released = threading.Event()


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, *args: object, gate: Gate, **kwargs: object) -> None:
        self.gate = gate
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[-1].split("#")[0]
        if name.endswith(".whl"):
            self.gate.requested.append(name)
            if name in self.gate.held:
                self.gate.asked.set()
                self.gate.released.wait(30)
        super().do_GET()

    def copyfile(self, source: object, outputfile: object) -> None:
        try:
            super().copyfile(source, outputfile)  # type: ignore[arg-type]
        except (BrokenPipeError, ConnectionResetError):  # the client was killed
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serve(folder: Path) -> Iterator[tuple[str, Gate]]:
    """Serve `folder` as a page of links on the loopback interface."""
    gate = Gate()
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Handler, gate=gate, directory=str(folder))
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", gate
    finally:
        gate.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def resolve_in_child(settings: StoreSettings) -> str:
    """What another process does."""
    return str(resolve("tiny-model", settings=settings).path)


class Recorder:
    """A Progress that remembers: `stages` holds [label, total, counted, finished], `steps` their calls."""

    def __init__(self) -> None:
        self.stages: list[list[object]] = []
        self.steps: list[list[int]] = []

    def start(self, total_bytes: int, label: str) -> None:
        self.stages.append([label, total_bytes, 0, False])
        self.steps.append([])

    def advance(self, n_bytes: int) -> None:
        self.stages[-1][2] += n_bytes  # type: ignore[operator]
        self.steps[-1].append(n_bytes)

    def finish(self) -> None:
        self.stages[-1][3] = True


def _urlsafe(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
