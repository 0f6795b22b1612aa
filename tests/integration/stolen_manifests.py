"""What the cache controller itself creates, and changes of it, for tests of what its token is good for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.cluster_view import CLAIMS, ObjectName
from accelkit.cachecontroller.deciding.volume_manifests import build_claim, build_volume
from accelkit.cachecontroller.delivery import FillSettings
from accelkit.cachecontroller.filling import ImageDelivery
from accelkit.cachecontroller.filling.manifests import write_claim, write_job, write_settings
from accelkit.cachecontroller.filling.objects import Target
from accelkit.gkm import names
from accelkit.gkm.objects import Cache

IMAGE: Final = "accelkit.test/accelkit:1"
DIGEST: Final = f"sha256:{'1' * 64}"
_STATUS: Final = {
    "resolvedDigest": DIGEST,
    "resolvedImage": f"quay.io/team/app@{DIGEST}",
    "mountPath": "/cache",
    "cacheFormat": "vllm",
    "capturePath": "/cache",
    "cacheBytes": 4096,
}
Json = dict[str, Any]


def build_cache(namespace: str) -> Cache:
    """A verified cache with a pull secret and placement."""
    spec = {
        "image": "quay.io/team/app:v1",
        "imagePullSecrets": [{"name": "login"}],
        "podTemplate": {"spec": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}},
    }
    document = {"metadata": {"name": "kernels", "namespace": namespace}, "spec": spec, "status": _STATUS}
    return msgspec.json.decode(msgspec.json.encode(document), type=Cache)


class Manifests:
    """Objects as the controller writes them for one cache of a tenant.

    Args:
        ours: accelkit's namespace.
        tenant: that of the cache.
    """

    def __init__(self, ours: str, tenant: str) -> None:
        self.settings = FillSettings(IMAGE, ours)
        self.cache = build_cache(tenant)
        self.target = Target(self.cache, tenant, DIGEST, "/cache")
        self.name = f"{self.target.name('fill', 'disk')}-1"

    @property
    def job(self) -> Json:
        """A Job that fills a claim, with a pull secret."""
        claim = self.target.name("fill", "disk")
        return write_job(
            self.target, self.settings, name=self.name, claim=claim, shared=self.name, attempt=1, check=False
        )

    @property
    def check(self) -> Json:
        """A Job that reads a claim."""
        claim = self.target.name("clone-copy", "disk")
        name = f"{self.target.name('clone-check', 'disk')}-1"
        return write_job(self.target, self.settings, name=name, claim=claim, shared=name, attempt=1, check=True)

    @property
    def daemon_set(self) -> Json:
        """Pods that hold an image on their nodes."""
        ((_, body),) = ImageDelivery(self.settings).plan(self.cache, ClusterState(lambda _key: None)).create
        return dict(body)

    @property
    def config_map(self) -> Json:
        """The settings of a Job."""
        return write_settings(self.target, self.name, self.settings, {})

    @property
    def secret(self) -> Json:
        """A copy of a pull secret."""
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": self.name, "uid": "0"}
        metadata = {"name": f"{self.name}-pull-0", "ownerReferences": [owner]}
        data = {".dockerconfigjson": "e30="}
        return {"metadata": metadata, "type": "kubernetes.io/dockerconfigjson", "data": data}

    @property
    def volume(self) -> Json:
        """A volume of the folder of a digest on each node."""
        claim = ObjectName(CLAIMS, "kernels", self.target.namespace)
        path = names.build_volume_path(self.cache.key, claim.namespace, DIGEST, "/cache")
        return build_volume(self.cache, claim, path, DIGEST, "0")

    @property
    def claim(self) -> Json:
        """A tenant's claim on that volume."""
        return build_claim(self.cache, ObjectName(CLAIMS, "kernels", self.target.namespace), DIGEST)

    @property
    def filled(self) -> Json:
        """A claim that a Job fills."""
        metadata = self.target.mark(self.target.name("fill", "disk"), self.settings.namespace)
        return write_claim(metadata, "disk", ["ReadWriteOnce"], "8Mi")

    @property
    def cloned(self) -> Json:
        """A claim that is a copy of the filled one."""
        metadata = self.target.mark(self.target.name("clone-copy", "disk"), self.settings.namespace)
        source = {"kind": "PersistentVolumeClaim", "name": self.target.name("fill", "disk")}
        return write_claim(metadata, "disk", ["ReadOnlyMany"], "8Mi", source=source)


def change(body: Mapping[str, Any], changes: Mapping[str, Any]) -> Json:
    """Return a copy with other values at these paths, as `spec/containers/0/image`; a list goes on at `+`.

    Parts of a path have dots and no slashes; `~1` stands for a slash. A value of None takes the field away.
    """
    # Labels of a Job and of its pods may be one dictionary.
    changed: Any = json.loads(json.dumps(body))
    for path, value in changes.items():
        *parents, last = [part.replace("~1", "/") for part in path.split("/")]
        place = changed
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
        if last == "+":
            place.append(value)
        elif isinstance(place, list):
            place[int(last)] = value
        elif value is None:
            place.pop(last, None)
        else:
            place[last] = value
    result: Json = changed
    return result
