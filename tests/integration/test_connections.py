"""The same environment leads our modules and those of kubernetes.core to the same API server, as the same user."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from ruamel.yaml import YAML

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.options import ConnectionOptions

pytestmark = pytest.mark.integration
REPOSITORY = Path(__file__).resolve().parents[2]
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


class Ways:
    """Environments that lead to a cluster, and files they name."""

    def __init__(self, kubeconfig: Path, folder: Path, token: str) -> None:
        self.document = YAML(typ="safe", pure=True).load(kubeconfig.read_text())
        self.folder, self.token = folder, token
        [cluster] = self.document["clusters"]
        self.server = cluster["cluster"]["server"]
        self.authority = folder / "ca.crt"
        settings = load_connection(kubeconfig).tls
        self.authority.write_text("".join(map(ssl.DER_cert_to_PEM_cert, settings.get_ca_certs(binary_form=True))))
        self.two = self.write("two", contexts={"admin": "admin", "pod": "pod"}, current="admin")
        self.plugins = self.write("plugins", contexts={"plugin": "plugin"}, current="plugin")

    def write(self, name: str, *, contexts: dict[str, str], current: str) -> Path:
        """Write a kubeconfig with these contexts, by the names of their users."""
        [cluster], [admin] = self.document["clusters"], self.document["users"]
        users = {"admin": admin["user"], "pod": {"token": self.token}, "plugin": self.plugin()}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": current,
            "clusters": [cluster],
            "users": [{"name": user, "user": users[user]} for user in contexts.values()],
            "contexts": [
                {"name": context, "context": {"cluster": cluster["name"], "user": user}}
                for context, user in contexts.items()
            ],
        }
        path = self.folder / name
        path.write_bytes(msgspec.json.encode(document))
        return path

    def plugin(self) -> dict:
        credential = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {"token": self.token},
        }
        program = self.folder / "plugin"
        program.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
        program.chmod(0o700)
        return {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": str(program),
                "interactiveMode": "Never",
            }
        }


@pytest.fixture(scope="module")
def ways(control_plane, tmp_path_factory):
    async def request_token():
        async with ApiClient(load_connection(control_plane.kubeconfig)) as api:
            path = "/api/v1/namespaces/default/serviceaccounts/default/token"
            return msgspec.json.decode(await api.post(path, {"spec": {}}))["status"]["token"]

    return Ways(control_plane.kubeconfig, tmp_path_factory.mktemp("ways"), asyncio.run(request_token()))


ANSIBLE = {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
ADMIN, POD = "admin", "system:serviceaccount:default:default"


HOST = {"K8S_AUTH_HOST": "{server}", "K8S_AUTH_SSL_CA_CERT": "{authority}", "K8S_AUTH_API_KEY": "{token}"}
# The environments, with the user as whom each acts.
ENVIRONMENTS = {
    "kubeconfig": ({"KUBECONFIG": "{two}"}, ADMIN),
    "context": ({"KUBECONFIG": "{two}", "K8S_AUTH_CONTEXT": "pod"}, POD),
    "named kubeconfig": ({"K8S_AUTH_KUBECONFIG": "{two}", "KUBECONFIG": "/nowhere"}, ADMIN),
    "several kubeconfigs": ({"KUBECONFIG": "{folder}/none:{two}"}, ADMIN),
    "bearer token, as AWX gives it": (HOST, POD),
    "bearer token beside a kubeconfig": ({**HOST, "KUBECONFIG": "{two}"}, POD),
    "unverified": (
        {"K8S_AUTH_HOST": "{server}", "K8S_AUTH_VERIFY_SSL": "false", "K8S_AUTH_API_KEY": "{token}"},
        POD,
    ),
    "plugin": ({"KUBECONFIG": "{plugins}"}, POD),
    "impersonation": ({"KUBECONFIG": "{two}", "K8S_AUTH_IMPERSONATE_USER": "somebody"}, "somebody"),
}


@pytest.mark.parametrize(("environ", "expected"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_accelkit_and_kubernetes_core_authenticate_as_same_user(ways, environ, expected):
    environ = {name: value.format_map(vars(ways)) for name, value in environ.items()}
    found = asyncio.run(ask(environ))
    assert found == ask_kubernetes_core(environ, ways.folder)
    assert expected in found or (found == POD and expected == "pod")


async def ask(environ: dict[str, str]) -> str:
    """Return as whom our client acts."""
    options = ConnectionOptions.collect({}, environ)
    async with ApiClient(load_connection(options, environ={"HOME": "/nonexistent", **environ})) as api:
        return msgspec.json.decode(await api.post(REVIEWS, REVIEW))["status"]["userInfo"]["username"]


def ask_kubernetes_core(environ: dict[str, str], folder: Path) -> str:
    """Return as whom kubernetes.core's module acts."""
    command = [sys.executable, "-m", "ansible.cli.adhoc", "localhost", "-m", "kubernetes.core.k8s", "-a"]
    done = subprocess.run(
        [*command, json.dumps({"definition": REVIEW})],
        cwd=REPOSITORY,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8", **ANSIBLE, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout[done.stdout.index("{") :])
    return result["result"]["status"]["userInfo"]["username"]
