"""What all tests share: the binary, captures of the repository, and emulated links."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from longhaul.binary import find_haul
from longhaul.errors import HaulNotFoundError

ROOT = Path(__file__).parents[2]

#: An upload of 24 packets, with delayed ACKs.
UPLOAD = ROOT / "docs/src/traces/browser-upload.snoop.txt"

#: The limit of any single wait in a test, in seconds. Nothing here takes a tenth of it.
LIMIT = 300


def run_with_ray(script: str, *arguments: Path | str) -> str:
    """What this script of the tests prints. It is a process of its own: Ray changes signals, threads and warnings.

    What the workers that it kills leave goes with Ray's own files.
    """
    pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
    temporary = {"TMPDIR": os.environ["RAY_TMPDIR"]} if "RAY_TMPDIR" in os.environ else {}
    ran = subprocess.run(
        [sys.executable, Path(__file__).with_name(script), *arguments],
        env={**os.environ, **temporary, "PYTHONPATH": str(ROOT / "python/src"), "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        timeout=LIMIT,
        check=False,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


@pytest.fixture(scope="session")
def haul() -> Path:
    """The binary that the package would run."""
    try:
        return find_haul()
    except HaulNotFoundError as error:
        pytest.skip(f"there is no haul to test with: {error}")


@pytest.fixture(scope="session")
def links(haul: Path) -> None:
    """Skips a test where links cannot be emulated."""
    tried = subprocess.run([haul, "link", "--quiet", "--", "true"], capture_output=True, timeout=LIMIT, check=False)
    if tried.returncode:
        pytest.skip(f"links cannot be emulated here: {tried.stderr.decode(errors='replace').strip()}")


#: A server and a client of an upload and a download on one connection.
_SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        body = b'x' * 300_000
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_PUT(self):
        self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(201); self.send_header('Content-Length', '0'); self.end_headers()
http.server.HTTPServer(('', 8000), Handler).serve_forever()
"""

_CLIENT = """
import http.client, os, time
for _ in range(600):
    try:
        client = http.client.HTTPConnection(os.environ['HAUL_SERVER_IP'], 8000, timeout=60); client.connect(); break
    except OSError: time.sleep(0.1)
client.request('PUT', '/up', b'y' * 200_000); client.getresponse().read()
client.request('GET', '/down'); client.getresponse().read()
"""


@pytest.fixture(scope="session")
def captured(haul: Path, links: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Captures of both ends of an upload and a download over 20 ms: ``client`` and ``server``."""
    folder = tmp_path_factory.mktemp("captured")
    server, client = folder / "server.py", folder / "client.py"
    server.write_text(_SERVER)
    client.write_text(_CLIENT)
    link = [str(haul), "link", "--quiet", "--rtt=20ms", "--rate=50mbit", f"--capture={folder}"]
    command = [*link, f"--server=python3 '{server}' 2>/dev/null", "--", "python3", str(client)]
    subprocess.run(command, check=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
    return lambda end: folder / f"{end}.pcapng"
