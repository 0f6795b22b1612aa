"""Reads the facts: from an API server by HTTPS, from kubelets' checkpoints, and from the extender that leads."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import urlsplit

from faults.facts import Facts, Ledger, read_checkpoint, read_ledger, read_node, read_pod

SECONDS = 10.0


class UnreadableError(Exception):
    """Something that the checker compares cannot be read now."""


class Source(Protocol):
    """Answers GET requests."""

    def get(self, path: str) -> Any:
        """Return the JSON behind a path.

        Raises:
            UnreadableError: no answer, or a refusal.
        """


class HttpsSource:
    """A server, asked on one connection.

    Args:
        url: of the server.
        tls: how it is known, and we; None for plain HTTP.
        seconds: how long it may be silent.
    """

    def __init__(self, url: str, tls: ssl.SSLContext | None, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._url = urlsplit(url)
        self._tls = tls
        self._connection: http.client.HTTPConnection | None = None

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] = MappingProxyType({})
    ) -> Any:
        """Return the JSON that answers a request.

        Raises:
            UnreadableError: no answer, or a refusal.
        """
        # A connection that the server has closed meanwhile is seen only when it is used.
        for last in (self._connection is None, True):
            try:
                return self._ask(method, path, body, headers)
            except (OSError, http.client.HTTPException, ValueError) as exc:
                self.close()
                if last:
                    raise UnreadableError(f"{self._url.netloc}{path}: {exc}") from exc
        raise AssertionError

    def copy(self) -> HttpsSource:
        """Return the same server, asked on another connection."""
        return HttpsSource(self._url.geturl(), self._tls, self._seconds)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, method: str, path: str, body: object, headers: Mapping[str, str]) -> Any:
        if self._connection is None:
            host, port = self._url.hostname or "", self._url.port
            if self._tls is None:
                self._connection = http.client.HTTPConnection(host, port, timeout=self._seconds)
            else:
                self._connection = http.client.HTTPSConnection(host, port, timeout=self._seconds, context=self._tls)
        data = None if body is None else json.dumps(body)
        kinds = {"Accept": "application/json", "Content-Type": "application/json"}
        self._connection.request(method, path, data, {**kinds, **headers})
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status not in (http.client.OK, http.client.CREATED):
            raise UnreadableError(f"{self._url.netloc}{path}: {answer.status} {text[:200].decode(errors='replace')}")
        return json.loads(text)


def open_api(kubeconfig: Path) -> HttpsSource:
    """Return the API server of a kubeconfig that has certificates in it; kubectl reads one that is not JSON.

    Raises:
        UnreadableError: it has none.
    """
    text = kubeconfig.read_text()
    if not text.startswith("{"):
        command = ["kubectl", "config", "view", "--raw", "--minify", "--kubeconfig", str(kubeconfig), "-o", "json"]
        text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    document = json.loads(text)
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    if "client-certificate-data" not in user or "certificate-authority-data" not in cluster:
        raise UnreadableError(f"{kubeconfig} has no certificates in it, as that of an administrator has")
    tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile() as file:
        for key in ("client-certificate-data", "client-key-data"):
            file.write(base64.b64decode(user[key]))
        file.flush()
        tls.load_cert_chain(file.name)
    return HttpsSource(cluster["server"], tls)


class Reader:
    """Reads the facts of a cluster.

    Args:
        api: the API server.
        kubelets: returns the checkpoint of a node's kubelet.
        ledger: returns what `GET /inspect` of the leading extender answers.
    """

    def __init__(self, api: Source, kubelets: Callable[[str], bytes], ledger: Callable[[], Mapping[str, Any]]) -> None:
        self._api, self._kubelets, self._ledger = api, kubelets, ledger

    def read(self) -> Facts:
        """Read everything once, the kubelets first: what is assigned later is not held against them.

        Raises:
            UnreadableError: the API server or a kubelet's checkpoint cannot be read. A silent extender is a fact.
        """
        nodes = [node for item in self._api.get("/api/v1/nodes")["items"] if (node := read_node(item))]
        given = {node.name: read_checkpoint(self._kubelets(node.name)) for node in nodes}
        items = self._api.get("/api/v1/pods")["items"]
        return Facts(
            pods=tuple(pod for item in items if (pod := read_pod(item))),
            nodes={node.name: node for node in nodes},
            given=given,
            ledger=self._read_ledger(),
        )

    def _read_ledger(self) -> Ledger | None:
        try:
            return read_ledger(self._ledger())
        except UnreadableError:
            return None
