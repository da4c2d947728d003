"""A model hub on the loopback interface: the endpoints that huggingface_hub calls to list and fetch files."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "a" * 40


@dataclass
class FakeHub:
    """What the hub holds and how it answers."""

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    listed_sha256: dict[str, str] = field(
        default_factory=dict
    )  # file name -> a hash that is not the content's
    status: int = 0  # answer everything with this
    listing: bytes = b""  # answer this where a repository's listing is asked for
    stall_s: float = 0.0  # answer nothing for so long
    requests: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    endpoint: str = ""
    stopped: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, *, with_body: bool) -> None:
        path = unquote(urlsplit(self.path).path).strip("/")
        self.hub.requests.append(f"{self.command} {path}")
        self.hub.tokens.add(self.headers.get("authorization") or "")
        if self.hub.stall_s:
            self.hub.stopped.wait(self.hub.stall_s)
            return
        if self.hub.status:
            self._send(self.hub.status, b"", {})
        elif path.startswith("api/models/"):
            self._list(path.removeprefix("api/models/"))
        else:
            repo, _, rest = path.partition("/resolve/")
            self._file(repo, rest.partition("/")[2], with_body=with_body)

    def _list(self, repo: str) -> None:
        if self.hub.listing:
            self._send(200, self.hub.listing, {})
            return
        if repo not in self.hub.repos:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
            return
        files = [
            {
                "rfilename": name,
                "size": len(data),
                "lfs": {
                    "sha256": self.hub.listed_sha256.get(name, hashlib.sha256(data).hexdigest()),
                    "size": len(data),
                    "pointerSize": 134,
                },
            }
            for name, data in self.hub.repos[repo].items()
        ]
        info = {"id": repo, "sha": COMMIT, "siblings": files, "cardData": {"license": "mit"}}
        self._send(200, json.dumps(info).encode(), {"Content-Type": "application/json"})

    def _file(self, repo: str, name: str, *, with_body: bool) -> None:
        if repo in self.hub.gated:
            self._send(403, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"})
        elif name not in self.hub.repos.get(repo, {}):
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        else:
            data = self.hub.repos[repo][name]
            headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha256(data).hexdigest()}"'}
            self._send(200, data, headers, with_body=with_body)

    def _send(self, status: int, body: bytes, headers: dict[str, str], *, with_body: bool = True) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body and self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def serve_hub() -> Iterator[FakeHub]:
    """Run a hub until the block ends."""
    hub = FakeHub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield hub
    finally:
        hub.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
