"""Small programs that stand where an engine's would: real processes with answers of their own."""

import sys
from pathlib import Path

SERVER = """
import http.server, os, signal, sys
port = int(sys.argv[sys.argv.index("--port") + 1])
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
    def log_message(self, *a): pass
print("engine", os.getpid(), os.environ.get("HF_TOKEN", "-"), flush=True)
http.server.HTTPServer(("127.0.0.1", port), Answer).serve_forever()
"""
HELP = """----- options -----
--metrics            enable metrics
--slots, --no-slots  slots
--spec-draft-n-max N tokens
--spec-draft-p-min P probability
--spec-type none,draft-simple,ngram-mod
--draft-max N        the argument has been removed
-md, --model-draft FILE
"""


def write_program(path: Path, code: str) -> Path:
    """An executable Python program."""
    path.write_text(f"#!{sys.executable}\n{code}", encoding="utf-8")
    path.chmod(0o755)
    return path


def write_llama_server(path: Path) -> Path:
    """A program that says what llama-server says of itself, and serves /health."""
    said = "version: 0.6.0-dev (build 0, commit unknown)\\nbuilt with GNU 12.2.0"
    code = (
        "import sys\n"
        f"if '--version' in sys.argv: print('{said}', file=sys.stderr); sys.exit()\n"
        f"if '--help' in sys.argv: print({HELP!r}); sys.exit()\n"
    )
    return write_program(path, code + SERVER)
