"""From a GKMCache created to Ready on every worker of a cluster made by kind, against a Job that does the same.

The Job has a pod on each node that runs `cosign verify`, `skopeo copy` and `tar -xz`; its image is there already.
Rounds alternate, each with an image that no node has seen; the layer has a gigabyte, half of it compressible. Then: a
second cache of a digest that the nodes hold, until they report it Ready and until the cache is; many small caches at
once; and the agents' memory at its peak with a large and a small image. Prints JSON.

It needs Docker, kind, kubectl, cosign, a registry in ACCELKIT_REGISTRY that takes plain HTTP (localhost:PORT of this
machine, which nodes reach as their gateway), and in KUBECONFIG a cluster made by kind with accelkit's kernel caches
(`accelkit_kernel_caches`), whose workers have simulated cards of the target. What is missing is said, and nothing
measured.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from cache import make_cache
from delivery_images import Publisher
from delivery_job import SCRIPTS, build_image, build_job, run
from delivery_watch import Cluster, Delivered, read_peaks, reset_peaks
from figures import Figure, report

from accelkit.errors import AccelkitError
from accelkit.kernelcache.registry import RegistryClient, RegistrySettings
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection

AIM_OF_RATIO = 2.0
AIM_OF_HELD_SECONDS = 1.0
AIM_OF_GROWTH = 1.25
PROGRAMS = ("docker", "kind", "kubectl", "cosign")
TARGETS = {
    "cuda": {"backend": "cuda", "arch": 75, "warp_size": 32},
    "rocm": {"backend": "hip", "arch": "gfx90a", "warp_size": 64},
}
SMALL_MIB = 10


@dataclass(frozen=True)
class Size:
    """How much is measured: an image of `mib`, `rounds` each way, and `caches` at once."""

    mib: int = 1024
    rounds: int = 5
    caches: int = 200


def find_problem() -> str | None:
    """Return what is missing here and what to do about it; None where nothing is."""
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"not installed: {', '.join(missing)}"
    if not os.environ.get("ACCELKIT_REGISTRY"):
        return "ACCELKIT_REGISTRY names no registry, such as localhost:5001"
    if not os.environ.get("KUBECONFIG"):
        return "KUBECONFIG names no cluster made by kind"
    if subprocess.run(["docker", "info"], capture_output=True, timeout=60, check=False).returncode:
        return "no Docker daemon answers"
    asked = ["kubectl", "get", "customresourcedefinition", "gkmcaches.gkm.io", "--request-timeout=30s"]
    if subprocess.run(asked, capture_output=True, timeout=60, check=False).returncode:
        return "the cluster has no kernel caches; install accelkit with accelkit_kernel_caches set"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=Size.mib, help="size of the large cache")
    parser.add_argument("--rounds", type=int, default=Size.rounds)
    parser.add_argument("--caches", type=int, default=Size.caches, help="small ones, created at once")
    parser.add_argument("--gpu", choices=[*TARGETS], default="rocm", help="whose cards the workers have")
    options = parser.parse_args()
    if problem := find_problem():
        report({"skipped": problem})
        return
    os.environ.setdefault("COSIGN_PASSWORD", "")
    size = Size(options.mib, options.rounds, options.caches)
    with tempfile.TemporaryDirectory(prefix="accelkit-bench-") as folder:
        try:
            report(asyncio.run(measure(Path(folder), size, TARGETS[options.gpu])))
        except AccelkitError as exc:
            raise SystemExit(f"error: {exc}") from exc


async def measure(work: Path, size: Size, target: dict[str, object]) -> dict[str, object]:
    """Make the images, and measure each way; the cluster is left without them."""
    registry = os.environ["ACCELKIT_REGISTRY"]
    nodes = run("kubectl", "get", "nodes", "-l", "!node-role.kubernetes.io/control-plane", "-o", "name").split()
    nodes = [name.removeprefix("node/") for name in nodes]
    if not nodes:
        raise SystemExit("the cluster has no workers")
    label = '{{index .Config.Labels "io.x-k8s.kind.cluster"}}'
    build_image(run("docker", "inspect", "--format", label, nodes[0]).strip())
    sys.path.insert(0, str(SCRIPTS))
    from cache_example_images import reach_from_nodes  # noqa: PLC0415 - scripts are no package

    reached = reach_from_nodes(registry, nodes)
    run("cosign", "generate-key-pair", "--output-key-prefix", work / "cosign")
    make_cache(work / "large", size.mib << 20, target)
    make_cache(work / "small", min(size.mib, SMALL_MIB) << 20, target)
    make_cache(work / "tiny", 1 << 16, target)
    settings = RegistrySettings(plain_http=frozenset({registry}))
    async with RegistryClient(settings) as client, ApiClient(load_connection(), timeout_seconds=60) as api:
        publisher = Publisher(client, registry, reached, work / "cosign.key")
        # One more of each for the memory, and a small one for the policy to be known before it counts.
        large = await publisher.publish(work / "large", "bench/large", size.rounds + 1)
        small = await publisher.publish(work / "small", "bench/small", 2)
        tiny = await publisher.publish(work / "tiny", "bench/tiny", size.caches)
        cluster = Cluster(api, nodes)
        await cluster.prepare(f"{reached}/bench/**", (work / "cosign.pub").read_text())
        try:
            await cluster.deliver({"first": small[1]})
            return {
                "image_mib": size.mib,
                "rounds": size.rounds,
                "nodes": len(nodes),
                **await compare(cluster, large[:-1], nodes),
                "small": await measure_many(cluster, tiny),
                "agent": await measure_memory(cluster, large[-1], small[0], nodes),
            }
        finally:
            await cluster.clean()


async def compare(cluster: Cluster, images: list[str], nodes: list[str]) -> dict[str, object]:
    """Deliver each image both ways, the other way first each time."""
    mine, others, held = list[Delivered](), list[float](), list[Delivered]()
    for number, image in enumerate(images):
        for ours in (number % 2 == 0, number % 2 == 1):
            if not ours:
                others.append(await cluster.run_job(build_job(f"theirs-{number}", image, nodes)))
                continue
            mine.append(await cluster.deliver({f"ours-{number}": image}))
            held.append(await cluster.deliver({f"again-{number}": image}))
            await cluster.remove([f"ours-{number}", f"again-{number}"])
    return compare_seconds([each.ready for each in mine], others, held)


def compare_seconds(mine: list[float], others: list[float], held: list[Delivered]) -> dict[str, object]:
    """Return the medians, and the ratio of those of the same run."""
    ours, theirs = (statistics.median(each) for each in (mine, others))
    again = statistics.median(each.on_nodes for each in held)
    return {
        "ours_s": round(ours, 2),
        "ours_least_and_most_s": [round(min(mine), 2), round(max(mine), 2)],
        "job_s": round(theirs, 2),
        "job_least_and_most_s": [round(min(others), 2), round(max(others), 2)],
        "job_to_ours": Figure(round(theirs / ours, 2), AIM_OF_RATIO, at_least=True),
        "held_digest_s": Figure(round(again, 2), AIM_OF_HELD_SECONDS),
        "held_digest_whole_cache_s": round(statistics.median(each.ready for each in held), 2),
    }


async def measure_many(cluster: Cluster, images: list[str]) -> dict[str, object]:
    """Create all caches at once, and wait for the last."""
    seconds = (await cluster.deliver({f"small-{number}": image for number, image in enumerate(images)})).ready
    await cluster.remove([f"small-{number}" for number in range(len(images))])
    return {"caches": len(images), "all_ready_s": round(seconds, 2), "ready_per_s": round(len(images) / seconds, 2)}


async def measure_memory(cluster: Cluster, large: str, small: str, nodes: list[str]) -> dict[str, object]:
    """Read the agents' memory at its peak, of either image."""
    peaks = {}
    for name, image in {"small": small, "large": large}.items():
        reset_peaks(nodes)
        before = time.monotonic()
        await cluster.deliver({f"memory-{name}": image})
        peaks[name] = max(read_peaks(nodes))
        print(f"{name}: {peaks[name]} MiB, {time.monotonic() - before:.1f} s", file=sys.stderr)
    await cluster.remove([f"memory-{name}" for name in peaks])
    growth = Figure(round(peaks["large"] / peaks["small"], 2), AIM_OF_GROWTH)
    return {"peak_mib_large": peaks["large"], "peak_mib_small": peaks["small"], "large_to_small": growth}


if __name__ == "__main__":
    main()
