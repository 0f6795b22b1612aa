"""Storage and nodes for the Jobs that fill claims: a provisioner, and what runs a Job's command as a pod would."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from cache_controller_process import Caches
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.gkm.objects import Cache
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_collection_path, build_object_path
from accelkit.model.keys import CACHE_KEY_ANNOTATION

OURS = "default"
CLAIMS = build_collection_path("v1", "persistentvolumeclaims", OURS)
PODS = build_collection_path("v1", "pods", OURS)
CONFIG_MAPS = build_collection_path("v1", "configmaps", OURS)
JOBS = build_collection_path("batch/v1", "jobs", OURS)
VOLUMES = build_collection_path("v1", "persistentvolumes")
CLASSES = build_collection_path("storage.k8s.io/v1", "storageclasses")
PROVISIONER = "disk.accelkit.test"


class Storage:
    """A StorageClass whose volumes are folders.

    Args:
        api: an open client.
        name: of the class.
        folder: where volumes are.
        refused: access modes in a claim that is refused.
        runs: whether Jobs are run at all.
    """

    def __init__(self, api: ApiClient, name: str, folder: Path, *, refused: str = "", runs: bool = True) -> None:
        self.api, self.name, self.folder, self.refused, self.runs = api, name, folder, refused, runs
        self.ended: list[str] = []
        self._answered: set[str] = set()

    async def open(self) -> None:
        await self.api.post(CLASSES, {"metadata": {"name": self.name}, "provisioner": PROVISIONER})

    async def close(self) -> None:
        await self.api.delete(build_object_path(CLASSES, self.name))

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                for claim in await self.list(CLAIMS):
                    unbound = not claim["spec"].get("volumeName") and claim["metadata"]["uid"] not in self._answered
                    if claim["spec"].get("storageClassName") == self.name and unbound:
                        self._answered.add(claim["metadata"]["uid"])
                        await self._provision(claim)
                for volume in await self.list(VOLUMES):
                    ours = volume["spec"].get("storageClassName") == self.name
                    if ours and volume.get("status", {}).get("phase") == "Released":
                        await self.api.delete(build_object_path(VOLUMES, volume["metadata"]["name"]))
                for pod in await self.list(PODS) if self.runs else ():
                    await self._run(pod)
            except ApiError:
                # Somebody else was faster.
                pass
            await asyncio.sleep(0.1)

    async def list(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = msgspec.json.decode(await self.api.get(path))["items"]
        return found

    async def _provision(self, claim: dict[str, Any]) -> None:
        meta, spec = claim["metadata"], claim["spec"]
        if self.refused and self.refused in spec["accessModes"]:
            await self._refuse(meta)
            return
        name = f"pvc-{meta['uid']}"
        (self.folder / name).mkdir(exist_ok=True)
        body = {
            "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
            "spec": {
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "accessModes": spec["accessModes"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": self.name,
                "hostPath": {"path": str(self.folder / name)},
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": OURS,
                    "name": meta["name"],
                    "uid": meta["uid"],
                },
            },
        }
        await self.api.post(VOLUMES, body)

    async def _refuse(self, meta: dict[str, Any]) -> None:
        body = {
            "metadata": {"name": f"{meta['name']}.refused"},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": OURS,
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "reason": "ProvisioningFailed",
            "type": "Warning",
            "message": f"the disk knows no access mode {self.refused}",
        }
        await self.api.post(build_collection_path("v1", "events", OURS), body)

    async def _run(self, pod: dict[str, Any]) -> None:
        """Do what a kubelet does: mount, run the command, tell how it ended."""
        name, spec = pod["metadata"]["name"], pod["spec"]
        claims = [each for each in spec["volumes"] if "persistentVolumeClaim" in each]
        if name in self.ended or not claims or pod["status"].get("phase") != "Pending":
            return
        claimed = claims[0]["persistentVolumeClaim"]["claimName"]
        claim = msgspec.json.decode(await self.api.get(build_object_path(CLAIMS, claimed)))
        volume = claim["spec"].get("volumeName")
        if claim["spec"]["storageClassName"] != self.name or not volume:
            return
        settings = next(each["configMap"]["name"] for each in spec["volumes"] if "configMap" in each)
        data = msgspec.json.decode(await self.api.get(build_object_path(CONFIG_MAPS, settings)))["data"]
        mounted = self.folder / f"settings-{name}"
        mounted.mkdir(exist_ok=True)
        for file, text in data.items():
            (mounted / file).write_text(text)
        places = {"/volume": str(self.folder / volume), "/etc/accelkit/fill": str(mounted)}
        words = [_place(word, places) for word in spec["containers"][0]["args"]]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "accelkit", *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={key: value for key, value in os.environ.items() if key != "KUBECONFIG"},
        )
        output, _ = await process.communicate()
        self.ended.append(name)
        ended = {"exitCode": process.returncode, "message": output.decode()[-2000:], "reason": "Completed"}
        container = {
            "name": "fill",
            "image": "i",
            "imageID": "i",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": ended},
        }
        phase = "Failed" if process.returncode else "Succeeded"
        status = {"phase": phase, "containerStatuses": [container]}
        await self.api.patch(f"{build_object_path(PODS, name)}/status", {"status": status})


def _place(word: str, places: dict[str, str]) -> str:
    for place, real in places.items():
        if word == place or word.startswith(f"{place}/"):
            return real + word.removeprefix(place)
    return word


@contextlib.asynccontextmanager
async def storage_of(caches: Caches, folder: Path, **options: Any) -> AsyncIterator[Storage]:
    """A StorageClass with its provisioner, for as long as the block."""
    storage = Storage(caches.api, caches.unique("disk"), folder, **options)
    await storage.open()
    working = asyncio.create_task(storage.run())
    try:
        yield storage
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await storage.close()


def reason_of(cache: Cache, namespace: str) -> str:
    """Why the claim of a namespace is as it is."""
    state = cache.status.pvc_status.get(namespace)
    return next((each.reason for each in state.conditions if each.type == "Ready"), "") if state else ""


def key_of(document: dict[str, Any]) -> str:
    return str((document["metadata"].get("annotations") or {}).get(CACHE_KEY_ANNOTATION, ""))


async def list_of(caches: Caches, path: str, key: str) -> list[str]:
    found = msgspec.json.decode(await caches.api.get(path))["items"]
    return [each["metadata"]["name"] for each in found if key_of(each) == key]


async def nothing_is_left(caches: Caches, namespace: str, key: str) -> None:
    async def gone() -> bool:
        own = build_collection_path("v1", "persistentvolumeclaims", namespace)
        left = [await list_of(caches, path, key) for path in (CLAIMS, CONFIG_MAPS, JOBS, VOLUMES, own)]
        return not any(left)

    await until(gone)
