"""A cluster of kind with accelkit in it whose nodes differ, and what the matrix of kernel caches asks of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kind_cluster import KindCluster, KindError, run

REPOSITORY = Path(__file__).resolve().parent.parent
IMAGE = "quay.io/fedora/fedora-minimal:latest"
GKM = "gkm.io/v1alpha1"
PLAY_SECONDS = 1800
WAIT_SECONDS = 300.0
# All cards of the second worker are for CUDA.
TARGETS = ("cuda:75 hip:gfx90a", "cuda:75")
SHARED = "/srv/shared"
# Prints each path that a file of the cache names, and `missing` before those that lead nowhere.
LOOK_UP = r"""
cd "$1"
{
  find . -name vllm_compile_cache.py -exec grep -ohE "'/[^']+'" {} + || :
  find . -name '__grp__*.json' -exec grep -ohE '"/[^"]+"' {} + || :
} | sed "s/^.//; s/.\$//" | while read -r path; do
  if test -s "$path"; then echo "$path"; else echo "missing $path"; fi
done
"""


@dataclass
class MatrixCluster:
    """A cluster, and the images that were made for it.

    Attributes:
        kind: with one node of the control plane and two workers.
        home: a folder of this run.
        images: what scripts/cache_example_images.py has printed.
    """

    kind: KindCluster
    home: Path
    images: dict[str, Any] = field(default_factory=dict)

    @property
    def workers(self) -> list[str]:
        """The names of the two workers; the second one's cards are of one vendor."""
        return self.kind.nodes[1:]

    def create(self) -> None:
        """Create the cluster, with image volumes and a folder that all nodes share."""
        shared = self.home / "shared"
        shared.mkdir(mode=0o777)
        mount = {"hostPath": str(shared), "containerPath": SHARED}
        nodes = [{"role": role, "extraMounts": [mount]} for role in ("control-plane", "worker", "worker")]
        head = {"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4"}
        config = self.home / "kind.json"
        config.write_text(json.dumps({**head, "featureGates": {"ImageVolume": True}, "nodes": nodes}))
        self.kind.create(config, TARGETS)

    def make_images(self) -> None:
        """Push the examples' images, and lead the nodes to them."""
        output = run(
            *(sys.executable, str(REPOSITORY / "scripts" / "cache_example_images.py")),
            *("--keys", str(self.home / "keys"), "--hosts-on", *self.workers),
            seconds=WAIT_SECONDS,
        )
        self.images = json.loads(output)

    @property
    def gateway(self) -> str:
        """The address of this machine by which nodes and pods reach it."""
        reached: str = self.images["mirror"].partition("=")[2].partition(":")[0]
        return reached

    def play(self, playbook: str, settings: Mapping[str, Any]) -> None:
        """Run a playbook with the inventory of clusters made by kind.

        Raises:
            KindError: it failed; the message has the end of what it said.
        """
        variables, log = self.home / "settings.json", self.home / f"{playbook}.log"
        variables.write_text(json.dumps(settings))
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.kind.kubeconfig),
            "ACCELKIT_KIND_CLUSTER": self.kind.name,
            "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        command = ["ansible-playbook", "--inventory", "inventories/kind", playbook, "--extra-vars", f"@{variables}"]
        with log.open("w") as file:
            done = subprocess.run(
                command,
                cwd=REPOSITORY,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=PLAY_SECONDS,
                check=False,
            )
        if done.returncode:
            output = "\n".join(log.read_text().splitlines()[-60:])
            raise KindError(f"{playbook} failed with {done.returncode}:\n{output}")

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects."""
        self.kind.kubectl(
            "apply", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        )

    def make_namespace(self, name: str) -> None:
        """Make a namespace."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def make_cache(self, namespace: str, name: str, image: str, **spec: Any) -> None:
        """Make a GKMCache."""
        metadata = {"name": name, "namespace": namespace}
        self.apply({"apiVersion": GKM, "kind": "GKMCache", "metadata": metadata, "spec": {"image": image, **spec}})

    def read(self, kind: str, name: str, namespace: str) -> dict[str, Any]:
        """Return an object."""
        output = self.kind.kubectl("--namespace", namespace, "get", kind, name, "--output=json")
        found: dict[str, Any] = json.loads(output)
        return found

    def await_condition(
        self,
        namespace: str,
        name: str,
        wanted: str,
        *,
        type_: str = "Ready",
        words: Sequence[str] = (),
        seconds: float = WAIT_SECONDS,
    ) -> dict[str, Any]:
        """Return the status of a cache once a condition is `STATUS/REASON`, as `True/Ready`, and has some words."""

        def look() -> dict[str, Any] | None:
            status: dict[str, Any] = self.read("gkmcache", name, namespace).get("status", {})
            found = find(status, type_)
            output = [f"{each['status']}/{each['reason']}" for each in found]
            return status if output == [wanted] and all(each in found[0]["message"] for each in words) else None

        found: dict[str, Any] = self.until(
            look, f"{type_} of {namespace}/{name} is not {wanted}", "gkmcache", namespace, seconds
        )
        return found

    def until(
        self, look: Callable[[], Any], complaint: str, kind: str, namespace: str, seconds: float = WAIT_SECONDS
    ) -> Any:
        """Return what a look gives, once it is anything; the message of failure has the objects of a kind."""
        deadline = time.monotonic() + seconds
        while not (found := look()):
            if time.monotonic() > deadline:
                output = self.kind.kubectl("--namespace", namespace, "describe", kind)
                raise KindError(f"{complaint} within {seconds:.0f} s:\n{output[-6000:]}")
            time.sleep(1)
        return found

    def make_pod(self, namespace: str, pod: Mapping[str, Any]) -> None:
        """Make a pod as `build_pod` has it."""
        self.apply({**pod, "metadata": {**pod["metadata"], "namespace": namespace}})

    def await_pod(self, namespace: str, name: str) -> dict[str, Any]:
        """Return a pod once it is ready."""

        def look() -> dict[str, Any] | None:
            pod = self.read("pod", name, namespace)
            conditions = pod.get("status", {}).get("conditions", [])
            ready = [each["status"] for each in conditions if each["type"] == "Ready"]
            return pod if ready == ["True"] else None

        found: dict[str, Any] = self.until(look, f"pod {namespace}/{name} is not ready", "pods", namespace)
        return found

    def exec(self, namespace: str, pod: str, script: str, *arguments: str) -> str:
        """Run a script in a pod; return what it prints."""
        return self.kind.kubectl(
            "--namespace", namespace, "exec", pod, "--container=main", "--", "sh", "-euc", script, "sh", *arguments
        )

    def look_up(self, namespace: str, pod: str, root: str) -> None:
        """Fail unless every path that a cache's files name leads to a file, as seen from within a pod."""
        named = self.exec(namespace, pod, LOOK_UP, root).splitlines()
        stray = [each for each in named if not each.startswith(f"{root}/")]
        if not named or stray:
            raise KindError(f"of {len(named)} paths that files below {root} name, these are wrong: {stray[:5]}")
        print(f"    {namespace}/{pod} finds the {len(named)} files that others name", flush=True)

    def refuses_writes(self, namespace: str, pod: str, root: str) -> None:
        """Fail unless a pod cannot write into a folder."""
        try:
            self.exec(namespace, pod, 'touch "$1/mine"', root)
        except KindError as exc:
            if "Read-only file system" not in str(exc):
                raise
        else:
            raise KindError(f"{namespace}/{pod} has written into {root}")


def find(status: Mapping[str, Any], type_: str) -> list[dict[str, Any]]:
    """Return the conditions of a type, which are one or none."""
    return [each for each in status.get("conditions", []) if each["type"] == type_]


def build_pod(
    name: str,
    *,
    claim: str = "",
    path: str = "",
    read_only: bool = True,
    node: str = "",
    annotations: Mapping[str, str] | None = None,
    pull_secret: str = "",
) -> dict[str, Any]:
    """Return a pod that mounts a cache by its claim, or by annotations alone."""
    container: dict[str, Any] = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "365d"],
        "securityContext": {"runAsUser": 1000, "allowPrivilegeEscalation": False},
    }
    spec: dict[str, Any] = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    if claim:
        container["volumeMounts"] = [{"name": "kernels", "mountPath": path, "readOnly": read_only}]
        spec["volumes"] = [{"name": "kernels", "persistentVolumeClaim": {"claimName": claim}}]
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    if pull_secret:
        spec["imagePullSecrets"] = [{"name": pull_secret}]
    metadata = {"name": name, "annotations": dict(annotations or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
