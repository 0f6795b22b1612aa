"""Walk the roads by which people install accelkit, each on a new kind cluster, with what is shipped; `make roads`.

Each road ends in site, verify, pods that share cards, site again without a change, removal, and a comparison of the
cluster with what it was. The nodes have no label and none is named; their cards are listed in a file. Where the default
base image cannot be pulled, an image of its name is made of Debian packages.

checkout: a clone, the commands of docs/how-to/installation.md, the sample inventory with a kubeconfig and a registry
packages: wheel and collection in an empty environment, playbooks by their full names, from an empty folder
awx:      ansible-runner as AWX runs it: a credential's variables, no kubeconfig, a read-only project, no terminal
ssh:      a clone; nodes that are reached by SSH, have no Python, and import the image, since no registry answers

ACCELKIT_REGISTRY names a registry that this machine and the nodes reach, localhost:5001 without it.

Usage: roads.py [--keep] ROAD…
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from e2e import BASE, find_base_image, find_problem, succeeds
from kind_cluster import KindCluster, KindError, run
from road_preparations import ROADS, Traveller


def walk(road: str, *, keep: bool) -> None:
    """Walk one road from its cluster to its removal.

    Raises:
        KindError: a step failed.
    """
    home = Path(tempfile.mkdtemp(prefix=f"accelkit-road-{road}-"))
    cluster = KindCluster(f"accelkit-road-{road}", home)
    traveller = Traveller(cluster, home)
    reached = False
    try:
        print("  a cluster of kind, with cards", flush=True)
        cluster.create()
        ROADS[road](traveller)
        cluster.take_snapshot()
        if traveller.check:
            traveller.run(*traveller.check)
        traveller.play("site", changes=True)
        traveller.play("verify", changes=False)
        cluster.share()
        cluster.check_accounts()
        printed = traveller.run("accelkit", "inspect", *traveller.inspect_options)
        if not all(name in printed for name in ("share-4", "share-8", "share-12")):
            raise KindError(f"accelkit inspect shows other pods:\n{printed}")
        containers = cluster.list_containers()
        traveller.play("site", changes=False)
        traveller.play("verify", changes=False)
        traveller.play("remove", changes=True)
        if cluster.list_containers() != containers:
            raise KindError("a pod that shares a card was restarted")
        # Nobody counts any more, so it must not have been put onto the node in the meantime.
        if (phase := cluster.read_phase("share-20")) != "Pending":
            raise KindError(f"the pod that waits for memory is {phase} after the removal")
        cluster.kubectl("delete", "pods", "--all", "--wait")
        cluster.compare_snapshot(*traveller.kept_images)
        print("  the cluster is as it was", flush=True)
        reached = True
    finally:
        if reached or not keep:
            cluster.delete()
            shutil.rmtree(home)
        else:
            print(f"  kept: {home} and the cluster; delete it by: kind delete cluster --name {cluster.name}")


def main() -> int:
    """Walk the named roads, one after the other; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("roads", nargs="*", choices=[*ROADS, []], metavar="ROAD", help="default: all")
    parser.add_argument("--keep", action="store_true", help="keep cluster and folder of a road that fails")
    options = parser.parse_args()
    problem = find_problem()
    base = None if problem else find_base_image()
    if problem or base is None:
        print(f"error: {problem or 'there is no base image'}", file=sys.stderr)
        return 1
    borrowed = not succeeds("docker", "image", "inspect", BASE)
    if borrowed:
        run("docker", "tag", base, BASE)
        print(f"{BASE} cannot be pulled: {base} bears its name meanwhile")
    try:
        for road in options.roads or ROADS:
            started = time.monotonic()
            print(f"==> {road}", flush=True)
            try:
                walk(road, keep=options.keep)
            except KindError as exc:
                print(f"error: {road} ends here: {exc}", file=sys.stderr)
                return 1
            print(f"  {road}: {(time.monotonic() - started) / 60:.1f} min", flush=True)
    finally:
        if borrowed:
            run("docker", "rmi", BASE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
