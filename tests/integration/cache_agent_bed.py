"""`accelkit cache-agent` as a process, on a node of its own on a real API server, and what a controller would write."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from private_sigstore import PrivateSigstore
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.gkm import names
from accelkit.kernelcache.extraction.integrity.protection import delete_tree
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import NODES, build_collection_path, build_secrets_path
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION

log = logging.getLogger(__name__)

Json = dict[str, Any]

KEY = PrivateSigstore.new().key()
MOUNT_PATH = "/root/.triton/cache"
DEADLINE = 60.0
GIB = 1 << 30
# All that the agent may do, beside reading Secrets where an administrator lets it.
RULES = [
    {"apiGroups": ["gkm.io"], "resources": ["gkmcaches", "clustergkmcaches"], "verbs": ["list", "watch"]},
    {
        "apiGroups": ["gkm.io"],
        "resources": ["gkmcachenodes", "clustergkmcachenodes"],
        "verbs": ["get", "list", "watch", "create", "delete"],
    },
    {
        "apiGroups": ["gkm.io"],
        "resources": ["gkmcachenodes/status", "clustergkmcachenodes/status"],
        "verbs": ["patch"],
    },
    {"apiGroups": ["accelkit.io"], "resources": ["signerpolicies"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "watch"]},
]

_numbers = itertools.count()


class Bed:
    """One node with its agent, and a namespace for its caches and pods.

    Args:
        api: an administrator's.
        kubeconfig: the agent's.
        folder: for the store and the log.
        namespace: of somebody else's caches; empty for one of its own.

    Attributes:
        registry: the registry of the test, if it has one of its own.
    """

    def __init__(self, api: ApiClient, kubeconfig: Path, folder: Path, namespace: str = "") -> None:
        self.api, self._kubeconfig, self.folder = api, kubeconfig, folder
        number = f"{os.getpid()}-{next(_numbers)}"
        self.node, self.namespace = f"cache-node-{number}", namespace or f"caches-{number}"
        self.registry: Any = None
        self.store = folder / "store"
        self.log = folder / "agent.log"
        self._arguments: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    async def create(self, host: str, *, kernels: str = "cuda:90", signer: Json | None = None) -> None:
        """Make namespace and node, and the policy for a registry."""
        await self.api.post("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        await self.join(host, kernels=kernels)
        await self.trust(host, signer)

    async def join(self, host: str, *, kernels: str) -> None:
        """Make the node, whose agent reaches a registry."""
        card = Card("card-0", "simulated", "sim", 16 * GIB, index=0, target=kernels)
        annotations = {INVENTORY_ANNOTATION: encode_inventory(Inventory(GIB, (card,)))}
        info = {"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": ""}
        info |= {"kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "linux"}
        status = {"nodeInfo": {**info, "osImage": "", "systemUUID": ""}}
        node = {"metadata": {"name": self.node, "annotations": annotations}, "spec": {"unschedulable": True}}
        await self.api.post(NODES, {**node, "status": status})
        # The disk of a test's machine may be nearly full.
        self._arguments = ["--plain-http", host, "--min-free-percent", "0"]

    async def trust(self, host: str, signer: Json | None = None) -> None:
        """Let the test's key, or another signer, sign what lies in a registry, for this namespace."""
        key = {"name": "ci", "key": {"data": KEY.key.public_pem.decode()}, "transparencyLog": "notRequired"}
        spec = {"images": [f"{host}/**"], "namespaces": [self.namespace], "signers": [signer or key]}
        body = {"apiVersion": names.POLICY_API, "kind": "SignerPolicy", "metadata": {"name": self.namespace}}
        await self.api.post(names.SIGNER_POLICIES, {**body, "spec": spec})

    async def distrust(self) -> None:
        await self.api.delete(f"{names.SIGNER_POLICIES}/{self.namespace}")

    async def close(self) -> None:
        self.kill()
        delete_tree(self.store)
        paths = [f"{names.SIGNER_POLICIES}/{self.namespace}", f"{NODES}/{self.node}"]
        for collection in (self._pods, self._caches):
            paths += [f"{collection}/{each['metadata']['name']}" for each in await self.list(collection)]
        for path in paths:
            try:
                await self.api.delete(path, {"gracePeriodSeconds": 0})
            except ApiError as exc:
                if not exc.not_found:
                    raise

    # The agent.

    def start(self, *arguments: str, protects: bool = True) -> None:
        """Start it with the rights of its container: root with the one that protects files, or without it."""
        rights = "-all,+linux_immutable" if protects else "-all"
        command = [] if os.geteuid() else ["setpriv", f"--bounding-set={rights}"]
        command += [sys.executable, "-m", "accelkit", "cache-agent", "--node", self.node, "--folder", str(self.store)]
        environ = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--kubeconfig", str(self._kubeconfig), *self._arguments, *arguments],
                stdout=log,
                stderr=log,
                env=environ | {"DOCKER_CONFIG": str(self.folder)},
            )

    def make_verdicts_older(self, seconds: float) -> None:
        """Let all that was verified be longer ago, while the agent does not run."""
        ledger = self.store / ".agent.json"
        known = json.loads(ledger.read_text())
        known["satisfied"] = {
            folder: {policies: at - seconds for policies, at in by_policies.items()}
            for folder, by_policies in known["satisfied"].items()
        }
        ledger.write_text(json.dumps(known))
        for path in self.store.glob("sha256-*/complete.json"):
            record = json.loads(path.read_text())
            then = datetime.fromisoformat(record["verified_at"]) - timedelta(seconds=seconds)
            path.write_text(json.dumps({**record, "verified_at": then.isoformat()}))

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End it without a word, as the kernel does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """End it as a kubelet does; return its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(60)
        self._process = None
        return code

    # What others write.

    @property
    def _pods(self) -> str:
        return build_collection_path("v1", "pods", self.namespace)

    @property
    def _caches(self) -> str:
        return build_collection_path(names.API, "gkmcaches", self.namespace)

    async def cache(
        self, image: str, digest: str, name: str = "add", *, secrets: Sequence[str] = (), **status: Any
    ) -> None:
        """Make a cache that the controller has verified."""
        spec = {"image": image, "imagePullSecrets": [{"name": each} for each in secrets]}
        body = {"apiVersion": names.API, "kind": "GKMCache", "metadata": {"name": name}, "spec": spec}
        await self.api.post(self._caches, body)
        await self.resolve(digest, name, resolvedImage=image, **status)

    async def resolve(self, digest: str, name: str = "add", *, verified: str = "True", **status: Any) -> None:
        """Write the status as the controller does."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        reason = "Verified" if verified == "True" else "NotCovered"
        condition = {"type": "Verified", "status": verified, "reason": reason, "message": "says the test"}
        written = {
            "resolvedDigest": digest,
            "mountPath": MOUNT_PATH,
            "delivery": "node",
            "conditions": [{**condition, "lastTransitionTime": now}],
            **status,
        }
        await self.api.patch(f"{self._caches}/{name}/status", {"status": written})

    async def let_read_secrets(self, account: str) -> None:
        """Give a ServiceAccount of `default` the right that the role gives in the namespaces that it is told."""
        rbac = "rbac.authorization.k8s.io/v1"
        meta = {"metadata": {"name": "pull-secrets"}}
        rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
        await self.api.post(build_collection_path(rbac, "roles", self.namespace), {**meta, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": account, "namespace": "default"}
        reference = {"apiGroup": rbac.partition("/")[0], "kind": "Role", "name": "pull-secrets"}
        binding = {**meta, "roleRef": reference, "subjects": [subject]}
        await self.api.post(build_collection_path(rbac, "rolebindings", self.namespace), binding)

    async def pull_secret(self, name: str, host: str, user: str, password: str) -> None:
        """Make a Secret as `kubectl create secret docker-registry` does."""
        document = json.dumps({"auths": {host: {"username": user, "password": password}}})
        body = {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": document}}
        await self.api.post(build_secrets_path(self.namespace), {"metadata": {"name": name}, **body})

    async def delete(self, name: str = "add") -> None:
        await self.api.delete(f"{self._caches}/{name}")

    async def pod(self, name: str, claim: str = "add", *, phase: str = "Running", copied: bool = False) -> Json:
        """Make a pod of the node that mounts a claim, as far as the kubelet has come with it."""
        volumes: list[Json] = [{"name": "kernels", "persistentVolumeClaim": {"claimName": claim}}]
        if copied:
            volumes.append({"name": names.name_private_copy("kernels"), "emptyDir": {}})
        spec = {
            "nodeName": self.node,
            "tolerations": [{"operator": "Exists"}],
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "busybox"}],
            "volumes": volumes,
        }
        async with asyncio.timeout(DEADLINE):
            while True:
                try:
                    made: Json = json.loads(await self.api.post(self._pods, {"metadata": {"name": name}, "spec": spec}))
                    break
                except ApiError as exc:
                    # The namespace's ServiceAccount comes a moment after it.
                    if not exc.forbidden:
                        raise
                    await asyncio.sleep(0.1)
        await self.phase(name, phase)
        return made

    async def phase(self, name: str, phase: str) -> None:
        """Say of a pod what its kubelet would."""
        state = {"running": {}} if phase == "Running" else {"waiting": {"reason": "ContainerCreating"}}
        container = {"name": "main", "image": "busybox", "imageID": "", "ready": True, "restartCount": 0}
        status = {"phase": phase, "containerStatuses": [{**container, "state": state}]}
        await self.api.patch(f"{self._pods}/{name}/status", {"status": status})

    async def poke(self) -> None:
        """Have the agent look now, by a change of its node."""
        card = Card("card-0", "simulated", f"sim {next(_numbers)}", 16 * GIB, index=0, target="cuda:90")
        annotations = {INVENTORY_ANNOTATION: encode_inventory(Inventory(GIB, (card,)))}
        await self.api.patch(f"{NODES}/{self.node}", {"metadata": {"annotations": annotations}})

    async def delete_pod(self, name: str) -> None:
        await self.api.delete(f"{self._pods}/{name}", {"gracePeriodSeconds": 0})

    # What is seen.

    async def list(self, path: str) -> list[Json]:
        found: list[Json] = json.loads(await self.api.get(path))["items"]
        return found

    async def report(self) -> Json:
        """The status of the node's GKMCacheNode; empty where there is none."""
        path = f"{build_collection_path(names.API, 'gkmcachenodes', self.namespace)}/{self.node}"
        try:
            found: Json = json.loads(await self.api.get(path)).get("status", {})
        except ApiError as exc:
            if not exc.not_found:
                raise
            return {}
        return found

    async def entry(self, digest: str, name: str = "add") -> Json:
        found: Json = (await self.report()).get("caches", {}).get(name, {}).get(digest, {})
        return found

    async def condition(self, kind: str, digest: str, name: str = "add") -> Json:
        conditions = (await self.entry(digest, name)).get("conditions", ())
        return next((each for each in conditions if each["type"] == kind), {})

    async def until(self, kind: str, digest: str, name: str = "add", *, status: str = "True", reason: str = "") -> Json:
        """Wait until a condition is so; return it."""
        deadline = time.monotonic() + DEADLINE
        while True:
            found = await self.condition(kind, digest, name)
            if found.get("status") == status and reason in {"", found["reason"]}:
                return found
            assert time.monotonic() < deadline, f"{await self.report()}\n{self.log.read_text()[-4000:]}"
            await asyncio.sleep(0.05)

    async def until_used(self, digest: str) -> None:
        """Wait until the node tells of a pod."""
        await until(lambda: self.entry(digest), accept=lambda entry: entry.get("pods"))

    async def until_true(self, question: Callable[[], Any]) -> None:
        try:
            await until(question, seconds=DEADLINE, every=0.02)
        except AssertionError as exc:
            raise AssertionError(self.log.read_text()[-4000:]) from exc

    def link(self, name: str = "add") -> Path:
        return Path(names.build_link_path(f"{self.namespace}/{name}", self.store))

    def leads_to(self, digest: str, name: str = "add") -> bool:
        path = Path(names.build_cache_path(digest, MOUNT_PATH, self.store))
        return self.link(name).is_dir() and self.link(name).resolve() == path.resolve()

    def folders(self) -> set[str]:
        return {path.name for path in self.store.glob("sha256-*")}
