"""An installation behind a Service as the roles make it, on a sandbox whose kubelets run none of its pods.

The extender is a process of the test with the arguments, the certificates and the rights that its pod would have.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
from extender_process import Process
from ports import free_port
from ruamel.yaml import YAML
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection

REPOSITORY = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
NAMESPACE = "accelkit"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
POD = "accelkit-extender-0"


class Installation:
    """What `site.yml` installs behind a Service, but for the pods.

    Args:
        kubeconfig: of an administrator.
        folder: for files.
    """

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.kubeconfig, self.folder = kubeconfig, folder
        self.address = _find_address()
        self.port, self.read_port, self.probe_port = free_port(), free_port(), free_port()

    @contextlib.contextmanager
    def applied(self) -> Iterator[Installation]:
        """Apply the roles, and remove everything in the end."""
        asyncio.run(self._create_namespace())
        try:
            self.play(certificates="apply", extender="apply")
            yield self
        finally:
            self.play(extender="remove", certificates="remove")
            asyncio.run(self._delete_namespace())

    def play(self, *, check: bool = True, **entries: str) -> subprocess.CompletedProcess[str]:
        """Run entry points of roles, each `role="entry"`, one after the other."""
        variables = {
            "certificates_namespace": NAMESPACE,
            "extender_namespace": NAMESPACE,
            "extender_port": self.port,
            "extender_read_port": self.read_port,
            "extender_probe_port": self.probe_port,
            "extender_log_folder": "",
            # No kubelet of a sandbox runs them; the process takes the place of one.
            "extender_replicas": 0,
        }
        imports = [{"name": f"accelkit.kubernetes.{role}", "tasks_from": entry} for role, entry in entries.items()]
        play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": variables}
        tasks = [{"ansible.builtin.import_role": each} for each in imports]
        playbook = self.folder / "play.yml"
        playbook.write_text(json.dumps([{**play, "tasks": tasks}]))
        environ = {
            **os.environ,
            "K8S_AUTH_KUBECONFIG": str(self.kubeconfig),
            "ANSIBLE_NOCOLOR": "1",
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        command = [str(BIN / "ansible-playbook"), str(playbook), "-i", "localhost,"]
        python = ["-e", f"ansible_python_interpreter={sys.executable}"]
        done = subprocess.run(
            [*command, *python], cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=240, check=False
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    @contextlib.asynccontextmanager
    async def extender(self) -> AsyncIterator[Process]:
        """Run the extender as its pod would; its API server knows the pod and its address."""
        async with self.api() as api:
            await api.post(f"{CORE}/pods", _pod())
            status = {"podIP": self.address, "podIPs": [{"ip": self.address}], "phase": "Running"}
            await api.patch(f"{CORE}/pods/{POD}/status", {"status": status})
            for name, content in (await self.read_secret("accelkit-extender-tls")).items():
                (self.folder / name).write_bytes(content)
            await self.write_certificates("accelkit-extender-tls", "accelkit-scheduler-client", "accelkit-ca")
            deployments = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
            deployment = msgspec.json.decode(await api.get(f"{deployments}/accelkit-extender"))
            given = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
            account = await self.impersonate("accelkit-extender", NAMESPACE)
            arguments = [self.place(each) for each in given[1:]]
            arguments += ["--identity", POD, "--advertise", self.address, "--kubeconfig", str(account)]
            with Process(self.folder, *arguments, port=self.port, plain=False) as process:
                try:
                    yield process
                finally:
                    await api.delete(f"{CORE}/pods/{POD}", {"gracePeriodSeconds": 0})

    def place(self, argument: str) -> str:
        """Return an argument of a container with the folder of this test in place of what its pod mounts."""
        return argument.replace("/etc/accelkit/tls", str(self.folder)).replace("/etc/accelkit", str(self.folder))

    async def read_secret(self, name: str) -> dict[str, bytes]:
        async with self.api() as api:
            secret: dict[str, Any] = msgspec.json.decode(await api.get(f"{CORE}/secrets/{name}"))
        return {key: base64.b64decode(value) for key, value in secret["data"].items()}

    async def write_certificates(self, *secrets: str) -> None:
        """Write the certificates of Secrets where a pod has them, as a kubelet does."""
        folder = self.folder / "certificates"
        folder.mkdir(exist_ok=True)
        for name in secrets:
            (folder / f"{name}.crt").write_bytes((await self.read_secret(name))["tls.crt"])

    @contextlib.asynccontextmanager
    async def api(self, kubeconfig: Path | None = None) -> AsyncIterator[ApiClient]:
        async with ApiClient(load_connection(kubeconfig or self.kubeconfig)) as api:
            yield api

    async def account(self, name: str, *, role: str = "") -> Path:
        """Create a ServiceAccount of the namespace `default`, bind a Role of ours to it, return its kubeconfig."""
        async with self.api() as api:
            await api.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
            if role:
                group = "rbac.authorization.k8s.io"
                binding = {
                    "metadata": {"name": name},
                    "roleRef": {"apiGroup": group, "kind": "Role", "name": role},
                    "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
                }
                await api.post(f"/apis/{group}/v1/namespaces/{NAMESPACE}/rolebindings", binding)
        return await self.impersonate(name, "default")

    async def impersonate(self, account: str, namespace: str) -> Path:
        """Return a kubeconfig with a token of a ServiceAccount."""
        document = YAML(typ="safe", pure=True).load(self.kubeconfig)
        (user,) = document["users"]
        user["user"] = {"token": await self.token(account, namespace)}
        path = self.folder / f"{account}.kubeconfig"
        path.write_text(json.dumps(document))
        return path

    async def token(self, account: str, namespace: str, *audiences: str) -> str:
        """Return a token of a ServiceAccount; without audiences for the API server."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": audiences}}
        async with self.api() as api:
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
            answer: dict[str, Any] = msgspec.json.decode(await api.post(path, request))
        return str(answer["status"]["token"])

    def run(self, kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `accelkit …` with nothing but a kubeconfig."""
        environ = {key: value for key, value in os.environ.items() if not key.startswith("ACCELKIT_")}
        command = [sys.executable, "-m", "accelkit", *arguments]
        environ["KUBECONFIG"] = str(kubeconfig)
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)

    async def _create_namespace(self) -> None:
        async with self.api() as api:
            await api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})

    async def _delete_namespace(self) -> None:
        async with self.api() as api:
            await api.delete(CORE)

            async def gone() -> bool:
                try:
                    await api.get(CORE)
                except ApiError as exc:
                    return exc.not_found
                return False

            await until(gone)


def _pod() -> dict[str, Any]:
    container = {"name": "extender", "image": "none"}
    return {"metadata": {"name": POD}, "spec": {"schedulerName": "none", "containers": [container]}}


def _find_address() -> str:
    # An API server proxies to no loopback address. Nothing is sent.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("198.51.100.1", 9))
        return str(one.getsockname()[0])
