"""The real `accelkit cache-controller` as a process, and the objects of caches, for the tests beside this module."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec
from bounded_accounts import cache_bounds, installed_bounds
from cluster_objects import kubeconfig_of_account
from ports import free_port
from private_sigstore import PrivateSigstore, Signer
from registries.artifact import Artifact
from registries.caches import cache_folder, publish, sign
from registries.hostile import HostileRegistry
from support.waiting import DEADLINE, until
from webhook_registration import CONFIGURATIONS, build_configuration

from accelkit.errors import ApiError
from accelkit.gkm import names
from accelkit.gkm.objects import Cache
from accelkit.install.certificates.issuing import Authority
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.objects import delete_if_present, get_if_present
from accelkit.kube.paths import build_collection_path, build_object_path
from accelkit.model.keys import CACHE_KEY_ANNOTATION, CACHE_MOUNT_ANNOTATION

WEBHOOK = build_object_path(CONFIGURATIONS, "cache-controller")
NAMESPACES, VOLUMES = "/api/v1/namespaces", "/api/v1/persistentvolumes"
_numbers = itertools.count()


ACCOUNT, IMAGE = "cache-controller", "accelkit.test/accelkit:1"


class CacheController:
    """`accelkit cache-controller …`, killed at the latest when its block is left."""

    def __init__(self, kubeconfig: Path, log: Path, *arguments: str) -> None:
        self.name = f"controller-{os.getpid()}-{next(_numbers)}"
        self.log = log / f"{self.name}.log"
        self.port = free_port()
        self._command = [
            *(sys.executable, "-m", "accelkit", "cache-controller", "--namespace", "default"),
            *("--kubeconfig", str(kubeconfig), "--lease", "default/cache-controller", "--identity", self.name),
            *("--image", IMAGE, "--metrics-port", str(self.port), *arguments),
        ]
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGTERM)

    def start(self) -> None:
        environ = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, env=environ)

    async def scrape(self) -> dict[str, float]:
        """Return what its port shows at /metrics: values by name and labels, as they are written there."""
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
            session.get(f"http://127.0.0.1:{self.port}/metrics") as answer,
        ):
            assert answer.status == 200
            lines = (await answer.text()).splitlines()
        return {name: float(value) for name, _, value in (each.rpartition(" ") for each in lines) if name[0] != "#"}

    def end(self, number: int) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=30)


class Caches:
    """Caches of one test, and what is made for them."""

    def __init__(self, api: ApiClient, registry: HostileRegistry, folder: Path, signer: Signer) -> None:
        self.api, self.registry, self._folder, self.signer = api, registry, folder, signer
        self._made: list[str] = []
        self._pods: list[str] = []

    def images(self, repository: str) -> str:
        """Return the pattern of all images of a team."""
        return f"{self.registry.host}/{repository.partition('/')[0]}/**"

    async def publish(
        self, repository: str, *, kernel: str = "add", tag: str = "v1", signer: Signer | None = None
    ) -> Artifact:
        """Push a cache image, signed where a signer is given; what has its digest is returned."""
        folder = cache_folder(self._folder / f"cache-{next(_numbers)}", kernel=kernel)
        image = await asyncio.to_thread(publish, self.registry.host, folder, repository, tag)
        if signer is not None:
            await asyncio.to_thread(sign, self.registry.host, image, signer, repository)
        return image

    async def namespace(self, name: str | None = None) -> str:
        name = name or self.unique("ns")
        await self.api.post(NAMESPACES, {"metadata": {"name": name}})
        return name

    @staticmethod
    def unique(prefix: str) -> str:
        return f"{prefix}-{os.getpid()}-{next(_numbers)}"

    async def policy(self, images: str, signer: Signer | None = None) -> str:
        """Create a SignerPolicy of one key; its name is returned."""
        name = self.unique("policy")
        await self.api.post(names.SIGNER_POLICIES, build_policy(name, images, signer or self.signer))
        self._made.append(build_object_path(names.SIGNER_POLICIES, name))
        return name

    async def create(
        self,
        namespace: str,
        repository: str,
        *,
        name: str = "",
        tag: str = "v1",
        kept: bool = False,
        annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> str:
        """Create a GKMCache, or a ClusterGKMCache where no namespace is given; its path is returned."""
        name = name or self.unique("cache")
        collection = build_collection_path(names.API, "gkmcaches", namespace) if namespace else names.CLUSTER_CACHES
        kind = "GKMCache" if namespace else "ClusterGKMCache"
        body = {"image": f"{self.registry.host}/{repository}:{tag}", **spec}
        metadata = {"name": name, "annotations": annotations or {}}
        await self.api.post(collection, {"apiVersion": names.API, "kind": kind, "metadata": metadata, "spec": body})
        path = build_object_path(collection, name)
        if not kept:
            self._made.append(path)
        return path

    async def read(self, path: str) -> Cache:
        return msgspec.json.decode(await self.api.get(path), type=Cache)

    async def becomes(self, path: str, accept: Callable[[Cache], Any], *, seconds: float = DEADLINE) -> Cache:
        """Wait until a cache is as expected; return it."""
        found: Cache = await until(lambda: self.read(path), accept=accept, seconds=seconds)
        return found

    async def claims(self, namespace: str) -> dict[str, dict[str, Any]]:
        """Return the claims of a namespace by name."""
        answer = await self.api.get(build_collection_path("v1", "persistentvolumeclaims", namespace))
        return {each["metadata"]["name"]: each for each in msgspec.json.decode(answer)["items"]}

    async def volumes(self, key: str) -> list[dict[str, Any]]:
        """Return the volumes of a cache."""
        found = msgspec.json.decode(await self.api.get(VOLUMES))["items"]
        return [each for each in found if each["metadata"].get("annotations", {}).get(CACHE_KEY_ANNOTATION) == key]

    async def pod(self, namespace: str, claim: str, name: str = "user") -> str:
        """Create a pod that mounts a claim and that no kubelet runs; its path is returned."""
        volumes = [{"name": "cache", "persistentVolumeClaim": {"claimName": claim}}]
        spec = {
            "containers": [{"name": "main", "image": "busybox"}],
            "volumes": volumes,
            "schedulerName": "none",
            "automountServiceAccountToken": False,
        }
        collection = build_collection_path("v1", "pods", namespace)
        account = build_object_path(build_collection_path("v1", "serviceaccounts", namespace), "default")
        await until(lambda: get_if_present(self.api, account))
        await self.api.post(collection, {"metadata": {"name": name}, "spec": spec})
        self._pods.append(build_object_path(collection, name))
        return self._pods[-1]

    async def events(self, namespace: str, name: str) -> set[str]:
        """Return the reasons of the events of an object."""
        found = msgspec.json.decode(await self.api.get(build_collection_path("v1", "events", namespace)))["items"]
        return {each["reason"] for each in found if each["involvedObject"]["name"] == name}

    async def gone(self, path: str, *, seconds: float = DEADLINE) -> None:
        """Wait until an object is not there."""
        await until(lambda: get_if_present(self.api, path), accept=lambda found: found is None, seconds=seconds)

    async def close(self) -> None:
        for path in self._pods:
            with contextlib.suppress(ApiError):
                await self.api.delete(path, {"gracePeriodSeconds": 0})
        for path in reversed(self._made):
            await delete_if_present(self.api, path)
        # Their finalizer is taken off by the controller, which still runs.
        for path in self._made:
            await self.gone(path, seconds=120)


@dataclass(frozen=True)
class CacheSite:
    """A control plane with the CRDs, a registry, and a controller of which one runs at a time.

    The controller has a token of its own, and no right that the role does not give it.
    """

    kubeconfig: Path
    token: Path
    folder: Path
    registry: HostileRegistry
    signer: Signer
    controller: CacheController

    @contextlib.asynccontextmanager
    async def make_caches(self, folder: Path) -> AsyncIterator[Caches]:
        """What a test makes, deleted at its end."""
        async with ApiClient(load_connection(self.kubeconfig), timeout_seconds=60) as api:
            made = Caches(api, self.registry, folder, self.signer)
            try:
                yield made
            finally:
                await made.close()

    @contextlib.asynccontextmanager
    async def serve_webhook(self, api: ApiClient, folder: Path) -> AsyncIterator[CacheController]:
        """Another controller in the place of this one, which serves the webhook `WEBHOOK`; yields it."""
        authority, port = Authority("webhook"), free_port()
        pair = authority.issue_server("webhook", ("127.0.0.1",))
        for file, content in (("tls.crt", pair.certificate), ("tls.key", pair.key), ("ca.crt", authority.certificate)):
            (folder / file).write_bytes(content)
        files = ["--webhook-cert", str(folder / "tls.crt"), "--webhook-key", str(folder / "tls.key")]
        configuration = build_configuration(WEBHOOK.rpartition("/")[2], port, folder / "ca.crt")
        self.controller.end(signal.SIGTERM)
        options = ["--plain-http", self.registry.host, "--webhook-port", str(port), *files]
        try:
            await api.post(CONFIGURATIONS, configuration)
            with CacheController(self.token, folder, *options) as controller:
                await until(lambda: calls_webhook(api))
                yield controller
        finally:
            await delete_if_present(api, WEBHOOK)
            self.controller.start()


@contextlib.contextmanager
def cache_site(sandbox: Any, folder: Path, *more: str) -> Iterator[CacheSite]:
    """A controller that judges anew every two seconds, where the kinds are defined."""
    with HostileRegistry() as registry:
        bounds = cache_bounds("default", ACCOUNT, IMAGE, plain_http=(registry.host,))
        with installed_bounds(sandbox.kubeconfig, bounds):
            token = asyncio.run(kubeconfig_of_account(sandbox, ACCOUNT, "default"))
            options = ["--plain-http", registry.host, "--judge-again-seconds", "2", *more]
            with CacheController(token, folder, *options) as controller:
                yield CacheSite(sandbox.kubeconfig, token, folder, registry, PrivateSigstore.new().key(), controller)


async def calls_webhook(api: ApiClient) -> bool:
    """Return whether the API server calls the webhook, and the webhook answers."""
    metadata = {"name": "asks", "annotations": {CACHE_MOUNT_ANNOTATION: "nothing"}}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    try:
        await api.post(build_collection_path("v1", "pods", "default"), pod, query={"dryRun": "All"})
    except ApiError as exc:
        return "does not exist in" in str(exc)
    return False


def digest_of(cache: Cache) -> str:
    """Return the digest that pods get."""
    return cache.status.resolved_digest


def build_policy(name: str, images: str, signer: Signer) -> dict[str, Any]:
    """Return a SignerPolicy of one key."""
    who = {"name": "ci", "key": {"data": signer.key.public_pem.decode()}, "transparencyLog": "notRequired"}
    return {
        "apiVersion": names.POLICY_API,
        "kind": "SignerPolicy",
        "metadata": {"name": name},
        "spec": {"images": [images], "signers": [who]},
    }


def condition(cache: Cache, type_: str) -> tuple[str, str]:
    """Return status and reason of a condition; empty where it is not there."""
    return next(((each.status, each.reason) for each in cache.status.conditions if each.type == type_), ("", ""))
