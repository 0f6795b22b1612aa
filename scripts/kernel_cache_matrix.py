"""Kernel caches by each delivery, on a new kind cluster whose nodes differ; `make kernel-cache-matrix`.

The cluster has image volumes (the gate ImageVolume), a folder that all nodes share, and one worker whose simulated
cards are of one vendor only. accelkit is installed by site.yml, and each case has a namespace of its own:

image:        an image volume of a real kubelet on each worker, by digest, at the path of the capture; no writing
namespace:    AccessModeUnsupported with kind's class; then a claim that a Job fills in a shared folder, read on both
              workers, and a writer that is kept off
node:         vLLM's cache by claim, by annotation and at another path, every path in its files looked up from the pod
incompatible: a node whose cards cannot load the cache: counts, nothing fetched there, where pods run
private:      a registry with a log-in, by pull secrets, prepared by nodes and by a Job

Without --made-caches it fails where a cache is not one that Triton or vLLM wrote: ACCELKIT_VECTORS names those.
Needs what `make e2e-kernel-cache` needs, and docker-registry.

Usage: kernel_cache_matrix.py [--keep] [--made-caches] [CASE…]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from e2e import find_base_image, find_problem, find_problem_of_caches
from kind_cluster import KindCluster, KindError
from matrix_cases import CASES, PRIVATE
from matrix_cluster import MatrixCluster
from private_registry import PrivateRegistry, private_registry
from ruamel.yaml import YAML


def build_settings(images: Mapping[str, Any], registry: PrivateRegistry) -> dict[str, Any]:
    """Return the variables with which accelkit is installed."""
    policy = YAML(typ="safe", pure=True).load(Path(images["policy"]).read_text())["spec"]
    given = images["settings"]
    return {
        "accelkit_kernel_caches": True,
        "accelkit_registry_mirrors": given["accelkit_registry_mirrors"],
        "accelkit_registry_plain_http": [*given["accelkit_registry_plain_http"], registry.host],
        "kernel_cache_judge_again_seconds": 30,
        "kernel_cache_pull_secret_namespaces": [PRIVATE],
        "kernel_cache_signer_policies": [
            {"name": "example-caches", "spec": policy},
            {"name": "private", "spec": {**policy, "images": [f"{registry.host}/**"]}},
        ],
    }


def go_through(cluster: MatrixCluster, cases: list[str], *, allow_made: bool) -> None:
    """Try the cases on a cluster that is created for them.

    Raises:
        KindError: something is not as it should be.
    """
    print("==> a cluster of kind, the images, and accelkit", flush=True)
    started = time.monotonic()
    cluster.create()
    cluster.make_images()
    for word in ("real", "made"):
        print(f"  {word} caches: {', '.join(cluster.images[f'{word}_caches']) or 'none'}", flush=True)
    if cluster.images["made_caches"] and not allow_made:
        raise KindError(
            "frameworks did not write all caches: name the folder of theirs in ACCELKIT_VECTORS, or give --made-caches"
        )
    with ExitStack() as stack:
        registry = stack.enter_context(private_registry(cluster.gateway, cluster.home / "registry"))
        # Its Secrets are named to the installation, which makes a Role there.
        cluster.make_namespace(PRIVATE)
        cluster.play("site.yml", build_settings(cluster.images, registry))
        print(f"  {(time.monotonic() - started) / 60:.1f} min", flush=True)
        for case in cases:
            print(f"==> {case}", flush=True)
            started = time.monotonic()
            CASES[case](cluster, *((registry,) if case == "private" else ()))
            print(f"  {case}: {(time.monotonic() - started) / 60:.1f} min", flush=True)


def main() -> int:
    """Try the named cases, or all; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE", help="default: all")
    parser.add_argument("--keep", action="store_true", help="keep cluster and folder where a case fails")
    parser.add_argument("--made-caches", action="store_true", help="continue with caches that no framework wrote")
    options = parser.parse_args()
    problem = find_problem() or find_problem_of_caches()
    base = None if problem else find_base_image()
    if problem or base is None:
        print(f"error: {problem or 'there is no base image'}", file=sys.stderr)
        return 1
    os.environ["ACCELKIT_BASE_IMAGE"] = base
    home = Path(tempfile.mkdtemp(prefix="accelkit-cache-matrix-"))
    kind = KindCluster("accelkit-cache-matrix", home)
    reached = False
    try:
        go_through(MatrixCluster(kind, home), options.cases or [*CASES], allow_made=options.made_caches)
        reached = True
    except (KindError, subprocess.TimeoutExpired) as exc:
        print(f"error: {exc}", file=sys.stderr)
    finally:
        if reached or not options.keep:
            kind.delete()
            shutil.rmtree(home)
        else:
            print(f"  kept: {home} and the cluster; delete it by: kind delete cluster --name {kind.name}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
