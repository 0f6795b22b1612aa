"""The webhook of pods as a process: it reads the caches of a real API server, and answers.

Each question is a line of its record: the name of the pod.
"""

from __future__ import annotations

import asyncio
import signal
import ssl
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from accelkit.cachecontroller.webhook.lookup import CacheLookup
from accelkit.cachecontroller.webhook.mutation import Tools
from accelkit.cachecontroller.webhook.server import PATH, WebhookServer
from accelkit.gkm.names import CACHES, CLUSTER_CACHES
from accelkit.gkm.objects import Cache
from accelkit.install.certificates.issuing import Authority
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.reflector import Reflector
from accelkit.serving.messages import Reply
from accelkit.serving.tls import Listen, TlsFiles

IMAGE = "registry.example/accelkit:1"
CONFIGURATION = "accelkit-cache-test"


class Stand:
    """The process, which can be stopped and started again."""

    def __init__(self, folder: Path, kubeconfig: Path, port: int) -> None:
        self.certificate, self.key, self.record = folder / "tls.crt", folder / "tls.key", folder / "record"
        self.record.touch()
        self._port = port
        self._arguments = [str(folder), str(kubeconfig), str(port)]
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._authority = Authority("webhook")
        self.authorities = folder / "ca.crt"
        self.authorities.write_bytes(self._authority.certificate)

    def issue(self) -> None:
        """Give the webhook a new certificate of its authority, as a renewed Secret has it."""
        pair = self._authority.issue_server("webhook", ["127.0.0.1"])
        self.key.write_bytes(pair.key)
        self.certificate.write_bytes(pair.certificate)

    def start(self) -> None:
        if self._process is None:
            with self._log.open("ab") as log:
                command = [sys.executable, __file__, *self._arguments]
                self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            assert self._process.wait(60) == 0, self._log.read_text()
            self._process = None

    def check(self) -> None:
        assert self._process is not None, "it was not started"
        assert self._process.poll() is None, self._log.read_text()

    @property
    def port(self) -> int:
        return self._port

    def peak_bytes(self) -> int:
        """The most memory that the process has had so far."""
        assert self._process is not None, "it was not started"
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (line,) = [each for each in status.splitlines() if each.startswith("VmHWM:")]
        return int(line.split()[1]) << 10

    def shows_certificate(self) -> bool:
        """Return whether those who connect now see the certificate that lies in the file."""
        shown = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", self._port), timeout=60))
        return shown == x509.load_pem_x509_certificate(self.certificate.read_bytes()).public_bytes(Encoding.DER)

    def asked(self) -> list[str]:
        """Names of the pods that it was asked about."""
        return self.record.read_text().split()


class _ReviewedMeta(msgspec.Struct):
    name: str = ""


class _ReviewedPod(msgspec.Struct):
    metadata: _ReviewedMeta


class _ReviewRequest(msgspec.Struct):
    object: _ReviewedPod


class _Review(msgspec.Struct):
    request: _ReviewRequest


class _RecordingServer(WebhookServer):
    """A webhook that records each question before it answers."""

    def __init__(self, record: Path, *arguments: Any) -> None:
        self._record = record
        super().__init__(*arguments)

    async def handle(self, method: str, path: str, body: bytes) -> Reply:
        if path == PATH:
            # It decodes the name alone, so that it takes no memory of its own for what a stranger sends.
            pod = msgspec.json.decode(body, type=_Review).request.object
            with self._record.open("a") as file:
                file.write(f"{pod.metadata.name}\n")
        return await super().handle(method, path, body)


class _Serving:
    def __init__(self, folder: Path, port: int, api: ApiClient) -> None:
        tls = TlsFiles(folder / "tls.crt", folder / "tls.key", None)
        self.caches: dict[str, dict[str, Cache]] = {}
        listen = Listen("127.0.0.1", port, tls)
        self._server = _RecordingServer(folder / "record", listen, self.find, Tools(IMAGE), CacheLookup(api).find)

    def find(self) -> list[Cache] | None:
        if len(self.caches) < 2:
            return None
        return [cache for kind in self.caches.values() for cache in kind.values()]

    def replace(self, kind: str, caches: list[Cache]) -> None:
        self.caches[kind] = {each.key: each for each in caches}

    def take(self, kind: str, event: str, cache: Cache) -> None:
        if event == "DELETED":
            self.caches[kind].pop(cache.key, None)
        else:
            self.caches[kind][cache.key] = cache

    async def run(self, api: ApiClient) -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        kinds = {"namespaced": CACHES, "cluster": CLUSTER_CACHES}
        work = [
            Reflector(api, path, Cache, on_replace=partial(self.replace, kind), on_event=partial(self.take, kind)).run()
            for kind, path in kinds.items()
        ]
        background = [asyncio.create_task(each) for each in work]
        await self._server.run(stop)
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)


async def _main(folder: str, kubeconfig: str, port: str) -> None:
    async with ApiClient(load_connection(Path(kubeconfig))) as api:
        await _Serving(Path(folder), int(port), api).run(api)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
