"""A control-plane host for tests: a root folder, entered by chroot, with a real kube-scheduler run from its manifest.

What runs it stands in for the kubelet's static pods, by the kubelet's protocol: it watches the manifest, restarts the
scheduler with whatever command it has, and shows the pod and its state as a mirror pod in the API.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import os
import re
import shutil
import ssl
import stat
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import Connection

COMMANDS = ("sh", "ls", "cat", "chmod", "chown", "mv", "rm", "mkdir", "rmdir", "wc", "sync", "base64", "sleep")
PODS = "/api/v1/namespaces/kube-system/pods"
MANIFEST = """\
# by hand: this comment stays
apiVersion: v1
kind: Pod
metadata:
  labels:
    component: kube-scheduler
    tier: control-plane
  name: kube-scheduler
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-scheduler
    - --authentication-skip-lookup=true
    - --kubeconfig=/etc/kubernetes/scheduler.conf
    - --leader-elect=true
    - --secure-port={port}
    image: registry.k8s.io/kube-scheduler:v1.34.4
    name: kube-scheduler
    volumeMounts:
    - mountPath: /etc/kubernetes/scheduler.conf
      name: kubeconfig
      readOnly: true
  hostNetwork: true
  priorityClassName: system-node-critical
  volumes:
  - hostPath:
      path: /etc/kubernetes/scheduler.conf
      type: FileOrCreate
    name: kubeconfig
status: {{}}
"""


def make_root(root: Path, scheduler: Path, kubeconfig: Path, port: int) -> None:
    """Make a host as kubeadm leaves it, with nothing but a shell and the commands of every system."""
    for folder in ("bin", "dev", "tmp", "var/lib", "etc/kubernetes/manifests"):
        (root / folder).mkdir(parents=True)
    os.mknod(root / "dev/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    for name in COMMANDS:
        found = Path(shutil.which(name) or "").resolve(strict=True)
        shutil.copy(found, root / "bin" / name)
        for library in re.findall(r"(/\S+)", subprocess.check_output(["ldd", found], text=True)):
            place = root / library.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                shutil.copy(Path(library).resolve(), place)
    # By its own name, from which it reads what it is.
    shutil.copy(scheduler, root / "bin/kube-scheduler")
    (root / "etc/kubernetes/scheduler.conf").write_bytes(kubeconfig.read_bytes())
    (root / "etc/kubernetes/scheduler.conf").chmod(0o600)
    (root / "etc/kubernetes/manifests/kube-scheduler.yaml").write_text(MANIFEST.format(port=port))
    (root / "etc/kubernetes/manifests/kube-scheduler.yaml").chmod(0o600)


def read_files(root: Path) -> dict[str, tuple[str, int, int, str]]:
    """Return the files of a host: kind and mode, owner, and the digest of the content."""
    found = {}
    for path in sorted((*root.glob("etc/**/*"), *root.glob("var/**/*"))):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(root))] = (oct(status.st_mode), status.st_uid, status.st_gid, content)
    return found


class Down:
    """The hosts whose scheduler was halted and is not healthy yet, and how many there were at most at once.

    One that answers late, or ends since it could not renew its Lease in time, was not halted: the machine is busy.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: set[str] = set()
        self.most = 0

    def mark(self, node: str, *, down: bool) -> None:
        with self._lock:
            (self._nodes.add if down else self._nodes.discard)(node)
            self.most = max(self.most, len(self._nodes))


class StaticPod(threading.Thread):
    """The kubelet's part of one host."""

    def __init__(self, node: str, root: Path, port: int, connection: Connection, down: Down) -> None:
        super().__init__(name=node)
        self.healthy = threading.Event()
        self.problem: BaseException | None = None
        self._node, self._root, self._port, self._connection, self._down = node, root, port, connection, down
        self._ended = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._text: str | None = None
        self._pod: dict[str, Any] = {}
        self._starts = 0

    def end(self) -> None:
        self._ended.set()
        self.join(30)
        assert not self.is_alive()
        if self.problem is not None:
            raise self.problem

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as exc:  # noqa: BLE001 - end() raises it in the test
            self.problem = exc
        finally:
            self._halt()

    async def _serve(self) -> None:
        async with ApiClient(self._connection) as api:
            while not self._ended.is_set():
                text = (self._root / "etc/kubernetes/manifests/kube-scheduler.yaml").read_text()
                if text != self._text:
                    self._halt()
                    self._text, self._starts = text, 0
                    self._pod = YAML(typ="safe", pure=True).load(text)
                    await self._forget(api)
                if self._process is None or self._process.poll() is not None:
                    self._start()
                await self._show(api)
                await asyncio.sleep(0.2)
            await self._forget(api)

    def _mirror(self) -> dict[str, Any]:
        mark = hashlib.sha256((self._text or "").encode()).hexdigest()[:32]
        annotations = {"kubernetes.io/config.hash": mark, "kubernetes.io/config.mirror": mark}
        annotations["kubernetes.io/config.source"] = "file"
        return {
            "metadata": {
                **self._pod["metadata"],
                "name": f"kube-scheduler-{self._node}",
                "annotations": annotations,
            },
            "spec": {**self._pod["spec"], "nodeName": self._node},
        }

    def _start(self) -> None:
        self._starts += 1
        command = self._pod["spec"]["containers"][0]["command"]
        with (self._root / "tmp/scheduler.log").open("ab") as log:
            self._process = subprocess.Popen(["chroot", self._root, *command], stdout=log, stderr=log)

    def _halt(self) -> None:
        self._down.mark(self._node, down=True)
        self.healthy.clear()
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None

    async def _forget(self, api: ApiClient) -> None:
        try:
            await api.delete(f"{PODS}/kube-scheduler-{self._node}", {"gracePeriodSeconds": 0})
        except ApiError as exc:
            if exc.status != 404:
                raise

    async def _show(self, api: ApiClient) -> None:
        ready = self._answers()
        if ready:
            self.healthy.set()
            self._down.mark(self._node, down=False)
        assert self._process is not None
        runs = self._process.poll() is None
        status = {
            "name": "kube-scheduler",
            "image": "kube-scheduler",
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": self._starts - 1,
            "containerID": f"process://{self._process.pid}",
            "state": {"running": {}} if runs else {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {} if runs else {"terminated": {"exitCode": self._process.returncode}},
        }
        change = {"status": {"phase": "Running", "containerStatuses": [status]}}
        try:
            await api.patch(f"{PODS}/kube-scheduler-{self._node}/status", change)
        except ApiError as exc:
            if exc.status != 404:
                raise
            # Not shown yet, or taken by the garbage collector, since its node is no object. Its state comes next time.
            await api.post(PODS, self._mirror())

    def _answers(self) -> bool:
        context = ssl._create_unverified_context()  # noqa: S323
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=2, context=context)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


def until(event: threading.Event, what: str, seconds: float = 60) -> None:
    """Wait for an event, with a deadline."""
    started = time.monotonic()
    assert event.wait(seconds), f"{what} after {time.monotonic() - started:.0f} s"
