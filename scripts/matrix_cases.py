"""What the matrix of kernel caches tries on its cluster: each case in a namespace of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from example_caches import find_caches
from kind_cluster import KindError, run
from matrix_cluster import SHARED, WAIT_SECONDS, MatrixCluster, build_pod, find
from private_registry import PrivateRegistry

CACHES: Final = "quay.io/gkm/cache-examples"
VLLM: Final = f"{CACHES}:vllm-cache"
ROCM: Final = f"{CACHES}:vector-add-cache-rocm"
STORE: Final = "/var/lib/accelkit/kernel-caches"
PRIVATE: Final = "matrix-private"
# Elsewhere than any cache was captured.
ELSEWHERE: Final = "/srv/kernels"
_SHARED_CLASS: Final = "matrix-shared"
_MODES: Final = ["ReadWriteOnce", "ReadOnlyMany"]


def try_image(cluster: MatrixCluster) -> None:
    """Image volumes of a real kubelet, by the verified digest, at the path of the capture."""
    space = "matrix-image"
    cluster.make_namespace(space)
    cluster.make_cache(space, "vllm", VLLM, delivery="image")
    ignoring = [each for each in cluster.workers if ignores_folders(cluster, each)]
    if not ignoring:
        path = mount_images(cluster, space)
        keep_off_a_writer(cluster, space, "vllm", path)
    else:
        # Each node is found when its own pod has looked.
        status = cluster.await_condition(space, "vllm", "False/ImageVolumesUnsupported", words=ignoring)
        print(f"    {find(status, 'Ready')[0]['message']}", flush=True)
        path = status["mountPath"]
        mount_whole_images(cluster, space, f"{CACHES}@{status['resolvedDigest']}")
    if (captured := cluster.read("gkmcache", "vllm", space)["status"]["capturePath"]) != path:
        raise KindError(f"the image says that it was captured at {captured}, and is mounted at {path}")
    # The same image at another path would name files that are not there.
    cluster.make_cache(space, "moved", VLLM, delivery="image", mountPath=ELSEWHERE)
    cluster.await_condition(space, "moved", "False/NotRelocatable")


def ignores_folders(cluster: MatrixCluster, node: str) -> bool:
    """Whether the runtime of a node shows all of an image where a pod mounts a folder of it: containerd before 2.2."""
    runtime = cluster.read("node", node, "")["status"]["nodeInfo"]["containerRuntimeVersion"]
    name, _, version = runtime.partition("://")
    return name == "containerd" and tuple(map(int, version.lstrip("v").split(".")[:2])) < (2, 2)


def mount_images(cluster: MatrixCluster, space: str) -> str:
    """Have pods on each worker get the image by the webhook; return where they mount it."""
    status = cluster.await_condition(space, "vllm", "True/Ready")
    run_readers(cluster, space, "vllm", status["mountPath"])
    for number, _ in enumerate(cluster.workers):
        volumes = cluster.read("pod", f"reader-{number}", space)["spec"]["volumes"]
        references = [each["image"]["reference"] for each in volumes if "image" in each]
        if references != [f"{CACHES}@{status['resolvedDigest']}"]:
            raise KindError(f"pod reader-{number} mounts {references}, and not the digest that was verified")
    path: str = status["mountPath"]
    return path


def mount_whole_images(cluster: MatrixCluster, space: str, reference: str) -> None:
    """Have a pod on each worker mount the image by itself, where its folder cannot be had, and read it."""
    for number, node in enumerate(cluster.workers):
        pod = build_pod(f"whole-{number}", claim="-", path="/image", node=node)
        pod["spec"]["volumes"] = [{"name": "kernels", "image": {"reference": reference}}]
        cluster.make_pod(space, pod)
    for number, _ in enumerate(cluster.workers):
        name = f"whole-{number}"
        cluster.await_pod(space, name)
        cluster.exec(space, name, 'test -n "$(find /image/io.vllm.cache/torch_compile_cache -name "__grp__*.json")"')
        cluster.refuses_writes(space, name, "/image/io.vllm.cache")


def try_namespace(cluster: MatrixCluster) -> None:
    """Test a claim for many readers: kind's own class rejects it, a shared folder provides it."""
    space = "matrix-namespace"
    cluster.make_namespace(space)
    spec = {"delivery": "namespace", "accessModes": _MODES}
    cluster.make_cache(space, "refused", VLLM, storageClassName="standard", **spec)
    status = cluster.await_condition(space, "refused", "False/AccessModeUnsupported")
    print(f"    standard: {find(status, 'Ready')[0]['message']}", flush=True)
    share_local_paths(cluster)
    cluster.make_cache(space, "shared", VLLM, storageClassName=_SHARED_CLASS, **spec)
    status = cluster.await_condition(space, "shared", "True/Ready")
    if status["pvcOwner"] != "Operator":
        raise KindError(f"the claim was filled by {status['pvcOwner']}, and not by a Job")
    claim = cluster.read("persistentvolumeclaim", "shared", space)
    if claim["spec"]["accessModes"] != ["ReadOnlyMany"]:
        raise KindError(f"the claim is {claim['spec']['accessModes']}")
    run_readers(cluster, space, "shared", status["mountPath"])
    keep_off_a_writer(cluster, space, "shared", status["mountPath"])


def share_local_paths(cluster: MatrixCluster) -> None:
    """Have local-path-provisioner make its volumes in the folder that all nodes share."""
    place = ("--namespace", "local-path-storage")
    data = {"data": {"config.json": json.dumps({"sharedFileSystemPath": SHARED})}}
    cluster.kind.kubectl(*place, "patch", "configmap", "local-path-config", f"--patch={json.dumps(data)}")
    cluster.kind.kubectl(*place, "rollout", "restart", "deployment", "local-path-provisioner")
    cluster.kind.kubectl(*place, "rollout", "status", "deployment", "local-path-provisioner", "--timeout=180s")
    cluster.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": _SHARED_CLASS},
            "provisioner": "rancher.io/local-path",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )


def try_node(cluster: MatrixCluster) -> None:
    """Mount the cache of vLLM on a node: by its claim, by annotation, and at another path than its own."""
    space = "matrix-node"
    cluster.make_namespace(space)
    cluster.make_cache(space, "vllm", VLLM)
    path = cluster.await_condition(space, "vllm", "True/Ready")["mountPath"]
    node = cluster.workers[0]
    cluster.make_pod(space, build_pod("claimed", claim="vllm", path=path, node=node))
    cluster.make_pod(space, build_pod("moved", claim="vllm", path=ELSEWHERE, node=node))
    cluster.make_pod(space, build_pod("asked", annotations={"cache.accelkit.io/mount": "vllm"}))
    for name, root in {"claimed": path, "moved": ELSEWHERE, "asked": path}.items():
        cluster.await_pod(space, name)
        cluster.look_up(space, name, root)
    root = cluster.exec(space, "asked", 'echo "$VLLM_CACHE_ROOT"').strip()
    if root != path:
        raise KindError(f"vLLM would look for its cache in {root!r}, and it is mounted at {path}")
    cluster.refuses_writes(space, "claimed", path)


def try_incompatible(cluster: MatrixCluster) -> None:
    """Test a node whose cards cannot load the cache beside one whose cards can."""
    space, (good, bad) = "matrix-incompatible", cluster.workers
    cluster.make_namespace(space)
    cluster.make_cache(space, "rocm", ROCM)
    status = cluster.await_condition(space, "rocm", "True/Ready")
    compatible = find(status, "Compatible")[0]
    if compatible["reason"] != "PartlyCompatible" or bad not in compatible["message"]:
        raise KindError(f"Compatible does not name {bad}: {compatible}")
    await_counts(cluster, space, {"nodeCnt": 2, "nodeNotInUseCnt": 1})
    digest = status["resolvedDigest"]
    found = {
        node: cluster.read("gkmcachenode", node, space)["status"]["caches"]["rocm"][digest] for node in (good, bad)
    }
    cards = {
        node: [len(each.get(f"{word}GPUs", [])) for word in ("compatible", "incompatible")]
        for node, each in found.items()
    }
    # Every other card of the first worker is for ROCm.
    if cards != {good: [4, 4], bad: [0, 8]}:
        raise KindError(f"cards that can load it, and that cannot: {cards}")
    folder = digest.replace(":", "-")
    stored = {node: cluster.kind.shell(node, f"ls -A {STORE} 2>/dev/null || :") for node in (good, bad)}
    if folder not in stored[good] or folder in stored[bad]:
        raise KindError(f"what nodes have: {stored}")
    cluster.make_pod(space, build_pod("asked", annotations={"cache.accelkit.io/mount": "rocm"}))
    if (ran := cluster.await_pod(space, "asked")["spec"]["nodeName"]) != good:
        raise KindError(f"a pod that asks for the cache runs on {ran}")
    cluster.make_pod(space, build_pod("reader", claim="rocm", path=status["mountPath"], node=good))
    cluster.await_pod(space, "reader")
    await_counts(cluster, space, {"nodeCnt": 2, "nodeInUseCnt": 1, "podRunningCnt": 2})
    cluster.make_pod(space, build_pod("stray", claim="rocm", path=status["mountPath"], node=bad))
    output = await_events(cluster, space, "stray", "FailedMount")
    print(f"    a pod on {bad}: {output}", flush=True)


def await_counts(cluster: MatrixCluster, space: str, wanted: dict[str, int]) -> None:
    """Wait until the only cache of a namespace counts so; what is not named is 0."""

    def look() -> bool:
        counts: dict[str, int] = cluster.read("gkmcache", "rocm", space)["status"].get("counts", {})
        return {name: number for name, number in counts.items() if number} == wanted

    cluster.until(look, f"the counts are not {wanted}", "gkmcache", space, 60)


def await_events(cluster: MatrixCluster, space: str, pod: str, reason: str) -> str:
    """Return what an event about a pod says, once there is one of a reason."""
    selector = f"--field-selector=involvedObject.name={pod},reason={reason}"

    def look() -> str:
        return cluster.kind.kubectl(
            "--namespace", space, "get", "events", selector, "--output=jsonpath={.items[*].message}"
        )

    output: str = cluster.until(look, f"there is no event {reason} of {pod}", "pod", space, WAIT_SECONDS)
    return output


def try_private(cluster: MatrixCluster, registry: PrivateRegistry) -> None:
    """Test a registry with a login, by the pull secret of the cache, with each delivery that fetches differently."""
    image = f"{registry.host}/team/cache:v1"
    with TemporaryDirectory() as work:
        folder = next(each.path for each in find_caches(Path(work)) if each.name.endswith("rocm"))
        run(
            *(str(Path(sys.executable).parent / "accelkit"), "cache", "build", str(folder), image),
            *("--plain-http", registry.host, "--sign-key", cluster.images["key"], "--no-transparency-log"),
            environment={
                "DOCKER_CONFIG": str(registry.config),
                "COSIGN_PASSWORD": os.environ.get("COSIGN_PASSWORD", ""),
            },
        )
    cluster.make_cache(PRIVATE, "locked", image)
    locked = cluster.await_condition(PRIVATE, "locked", "False/Unreadable", type_="Resolved")
    print(f"    without a log-in: {find(locked, 'Resolved')[0]['message']}", flush=True)
    secret: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": "log-in", "namespace": PRIVATE},
        "stringData": {".dockerconfigjson": registry.log_in},
    }
    cluster.apply(secret)
    pull = {"imagePullSecrets": [{"name": "log-in"}]}
    cluster.make_cache(PRIVATE, "by-node", image, **pull)
    filled = {"delivery": "namespace", "storageClassName": "standard", "accessModes": ["ReadWriteOnce"]}
    cluster.make_cache(PRIVATE, "by-job", image, **filled, **pull)
    for name in ("by-node", "by-job"):
        path = cluster.await_condition(PRIVATE, name, "True/Ready")["mountPath"]
        cluster.make_pod(PRIVATE, build_pod(name, claim=name, path=path, node=cluster.workers[0]))
        cluster.await_pod(PRIVATE, name)
        cluster.look_up(PRIVATE, name, path)


def run_readers(cluster: MatrixCluster, space: str, cache: str, path: str) -> None:
    """Fail unless a pod on each worker finds all files and can write none."""
    for number, node in enumerate(cluster.workers):
        cluster.make_pod(space, build_pod(f"reader-{number}", claim=cache, path=path, node=node))
    for number, _ in enumerate(cluster.workers):
        cluster.await_pod(space, f"reader-{number}")
        cluster.look_up(space, f"reader-{number}", path)
        cluster.refuses_writes(space, f"reader-{number}", path)


def keep_off_a_writer(cluster: MatrixCluster, space: str, cache: str, path: str) -> None:
    """Fail unless what a pod writes that mounts the cache writable stays its own."""
    cluster.make_pod(space, build_pod("writer", claim=cache, path=path, read_only=False, node=cluster.workers[0]))
    cluster.await_pod(space, "writer")
    cluster.look_up(space, "writer", path)
    cluster.exec(
        space,
        "writer",
        'touch "$1/mine"; for file in $(find "$1" -name "__grp__*"); do echo poison > "$file"; done',
        path,
    )
    cluster.exec(space, "reader-0", 'test ! -e "$1/mine" && ! grep -rl poison "$1"', path)


CASES: Final[dict[str, Callable[..., None]]] = {
    "image": try_image,
    "namespace": try_namespace,
    "node": try_node,
    "incompatible": try_incompatible,
    "private": try_private,
}
