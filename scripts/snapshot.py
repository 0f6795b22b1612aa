"""Write the state of a cluster to a file, to compare it later: objects, nodes, and files on the nodes.

Usage: snapshot.py take FILE, or snapshot.py compare FILE SECONDS [IMAGE…]

A cluster is taken once it stands still: controllers still write to a new one when its nodes and pods are ready long
since, such as the annotation node.alpha.kubernetes.io/ttl.
Images whose names begin with IMAGE are left out of the comparison: those that kubelets pulled stay on purpose.
"""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
import time
from pathlib import Path

# Everything that the installation may touch on a host. Logs outlive a removal on purpose.
FOLDERS = (
    "/etc/kubernetes",
    "/etc/accelkit",
    "/etc/cdi",
    "/etc/systemd/system",
    "/opt",
    "/var/lib/accelkit",
    "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet/plugins_registry",
)
# The kubelet writes its checkpoint to a file like .3294404956 and renames it; a kubelet that is killed between the two
# leaves that file behind for good.
KUBELETS_OWN = "! -name kubelet_internal_checkpoint ! -path '*/device-plugins/.[0-9]*'"
LISTING = (
    "for folder in {folders}; do [ ! -e $folder ] || find $folder {without} "
    "-printf '%p %y %m %U:%G %l\\n' ; done | sort; "
    "find {folders} -type f {without} -exec sha256sum {{}} + 2>/dev/null | sort -k 2"
)
# Fields that change by themselves.
VOLATILE = frozenset(
    {
        "managedFields",
        "resourceVersion",
        "generation",
        "observedGeneration",
        "lastHeartbeatTime",
        "lastTransitionTime",
        "lastUpdateTime",
        "kubernetes.io/config.seen",
        "endpoints.kubernetes.io/last-change-trigger-time",
    }
)
# Kinds that come and go, and nodes, which are taken with their status.
PASSING = ("events", "events.events.k8s.io", "componentstatuses", "nodes")
SETTLED_SECONDS = 180
STILL_SECONDS = 10


class SnapshotError(Exception):
    """The cluster can't be read now; the text says what could not, and why."""


def run(*command: str) -> str:
    """Return what a command prints.

    Raises:
        SnapshotError: it failed, or did not end in time.
    """
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired as exc:
        raise SnapshotError(str(exc)) from exc
    if ended.returncode:
        raise SnapshotError(f"{' '.join(command)[:200]}: exit status {ended.returncode}: {ended.stderr.strip()}")
    return ended.stdout


def drop_volatile(value: object) -> object:
    """Return a value without the fields that change by themselves."""
    if isinstance(value, dict):
        return {key: drop_volatile(entry) for key, entry in value.items() if key not in VOLATILE}
    return [drop_volatile(entry) for entry in value] if isinstance(value, list) else value


def write_listing(folders: tuple[str, ...]) -> str:
    """Return the shell command that lists the files in the folders, with their rights and checksums."""
    return LISTING.format(folders=" ".join(folders), without=KUBELETS_OWN)


def list_objects() -> dict[str, object]:
    """Return all objects that the API server lists, whole, by kind, namespace and name."""
    resources = run("kubectl", "api-resources", "--verbs=list", "-o", "name").split()
    kinds = ",".join(kind for kind in resources if kind not in PASSING)
    found: dict[str, object] = {}
    for item in json.loads(run("kubectl", "get", kinds, "--all-namespaces", "--ignore-not-found", "-o", "json"))[
        "items"
    ]:
        kind, metadata = item["kind"], item["metadata"]
        namespace = metadata.get("namespace", "")
        if kind == "Lease":
            # A node's own comes some seconds after the node; who leads elsewhere changes with each restart.
            if namespace == "kube-node-lease":
                continue
            del item["spec"]
        if kind == "Pod":
            # The kubelet makes a static pod's mirror anew where its manifest was away.
            del item["status"], metadata["uid"], metadata["creationTimestamp"]
        found[f"{item['apiVersion']} {kind} {namespace} {metadata['name']}"] = drop_volatile(item)
    return found


def take_snapshot(ignored: tuple[str, ...] = ()) -> dict[str, object]:
    """Return the cluster of KUBECONFIG as it is now, and the files on its nodes, which are containers.

    Args:
        ignored: beginnings of names of images that are left out.
    """
    nodes = json.loads(run("kubectl", "get", "nodes", "-o", "json"))["items"]
    for node in nodes:
        # The kubelet lists them in an order of its own.
        images = [
            each
            for each in node["status"]["images"]
            if not any(name.startswith(ignored) for name in each["names"] or ())
        ]
        node["status"]["images"] = sorted(images, key=lambda image: sorted(image["names"] or ()))
    listing = write_listing(FOLDERS)
    return {
        "nodes": drop_volatile(nodes),
        "objects": list_objects(),
        "files": {
            node["metadata"]["name"]: run("docker", "exec", node["metadata"]["name"], "sh", "-c", listing).splitlines()
            for node in nodes
        },
    }


def take_settled() -> dict[str, object]:
    """Return the cluster as it is once two looks at it are equal.

    Raises:
        SnapshotError: it does not stand still; the text has the last differences.
    """
    deadline, last = time.monotonic() + SETTLED_SECONDS, take_snapshot()
    while True:
        time.sleep(STILL_SECONDS)
        now = take_snapshot()
        found, last = compare(last, now), now
        if not found:
            return now
        if time.monotonic() > deadline:
            raise SnapshotError("\n".join(["the cluster does not stand still:", *found]))


def find_differences(before: object, seconds: float, ignored: tuple[str, ...]) -> list[str]:
    """Return what still differs from a snapshot when the time is over, or why the cluster can't be read then."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = compare(before, take_snapshot(ignored))
        # A kind that goes between the list of kinds and that of objects is such an error.
        except SnapshotError as exc:
            found = [str(exc)]
        if not found or time.monotonic() > deadline:
            return found
        # A kubelet reports the images that it has every minute or so, and deleted objects take their time.
        time.sleep(2)


def compare(before: object, after: object) -> list[str]:
    """Return the lines of the unified diff of two snapshots; there are none where they are equal."""
    first, second = (json.dumps(each, indent=1, sort_keys=True).splitlines() for each in (before, after))
    return list(difflib.unified_diff(first, second, "before", "after", lineterm="", n=6))


def main() -> int:
    """Take a snapshot, or wait until the cluster equals one; return the exit status."""
    match sys.argv[1:]:
        case ["take", file]:
            try:
                Path(file).write_text(json.dumps(take_settled()))
            except SnapshotError as exc:
                print(f"error: {exc}", file=sys.stderr)
                return 1
            return 0
        case ["compare", file, seconds, *ignored]:
            found = find_differences(json.loads(Path(file).read_text()), float(seconds), tuple(ignored))
            print("\n".join(found) if found else "the cluster is as it was")
            return bool(found)
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
