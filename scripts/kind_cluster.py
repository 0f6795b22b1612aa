"""A cluster made by kind whose workers have cards that are listed in a file, for tests of the whole product."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

SCENARIO = Path(__file__).resolve().parent.parent / "extensions/molecule/default/files"
SNAPSHOT = Path(__file__).with_name("snapshot.py")
CHECK = Path(__file__).resolve().parent.parent / "tests/faults/check_cluster.py"
# For what the kernels of the cards are compiled, in turns; those of the example caches are for both.
TARGETS = "cuda:75 hip:gfx90a"
CREATE_SECONDS = 600
READY = "180s"
POD_SECONDS = 120
# Units of 1 GiB that the pods ask for, on cards of 16; none has room for the last.
PODS = {"share-4": 4, "share-8": 8, "share-12": 12, "share-20": 20}
LOOK = "ls /dev/accelkit*; echo $ACCELKIT_MEMORY_BYTES"


class KindError(Exception):
    """The cluster is not what it should be."""


class KindCluster:
    """One node of the control plane and two workers with eight simulated cards each, without any label of ours."""

    def __init__(self, name: str, folder: Path) -> None:
        """Name a cluster that does not exist yet; its kubeconfig and its snapshot are in the folder."""
        self.name = name
        self.kubeconfig = folder / "kubeconfig"
        self._snapshot = folder / "before.json"

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes, which are those of their containers."""
        return [f"{self.name}-{role}" for role in ("control-plane", "worker", "worker2")]

    def create(self, config: Path = SCENARIO / "kind.yml", targets: Sequence[str] = (TARGETS, TARGETS)) -> None:
        """Create the cluster, and put the cards into its workers.

        Args:
            config: kind's, of three nodes.
            targets: of the cards of each worker.
        """
        image = os.environ.get("KIND_NODE_IMAGE")
        run(
            *("kind", "create", "cluster", "--name", self.name, "--config", str(config)),
            *("--kubeconfig", str(self.kubeconfig), *(("--image", image) if image else ())),
            seconds=CREATE_SECONDS,
        )
        self.kubectl("wait", "--for=condition=Ready", "nodes", "--all", f"--timeout={READY}")
        self.kubectl("wait", "--for=condition=Ready", "pods", "--all", "--all-namespaces", f"--timeout={READY}")
        for worker, each in zip(self.nodes[1:], targets, strict=True):
            self.shell(worker, f'targets="{each}"\n{(SCENARIO / "simulated.sh").read_text()}')

    def delete(self) -> None:
        """Delete the cluster; docker may need more than one try to end a container in time."""
        for _ in range(5):
            try:
                run("kind", "delete", "cluster", "--name", self.name, "--kubeconfig", str(self.kubeconfig))
            except KindError as exc:
                print(exc, file=sys.stderr)
            else:
                return

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl on the cluster; return what it prints."""
        return run("kubectl", "--kubeconfig", str(self.kubeconfig), *arguments, stdin=stdin, seconds=300)

    def shell(self, node: str, script: str) -> str:
        """Run a script on a node, as root; return what it prints."""
        return run("docker", "exec", "--interactive", node, "sh", "-eu", stdin=script, seconds=300)

    def take_snapshot(self) -> None:
        """Remember the cluster as it is: objects, nodes, files."""
        self._run_snapshot("take", str(self._snapshot))

    def compare_snapshot(self, *kept_images: str) -> None:
        """Fail unless the cluster is as it was, but for images of these names, which kubelets have pulled."""
        self._run_snapshot("compare", str(self._snapshot), "240", *kept_images)

    def _run_snapshot(self, *arguments: str) -> None:
        environment = {"KUBECONFIG": str(self.kubeconfig)}
        run(sys.executable, str(SNAPSHOT), *arguments, environment=environment, seconds=600)

    def share(self) -> None:
        """Run the pods, one after the other; fail unless the first two share a card, and the last is refused."""
        worker = self.nodes[-1]
        seen = {}
        for name, units in PODS.items():
            self.kubectl("apply", "--filename=-", stdin=json.dumps(build_pod(name, units, worker)))
            if units <= PODS["share-12"]:
                self.kubectl("wait", "--for=condition=Ready", f"pod/{name}", f"--timeout={POD_SECONDS}s")
                seen[name] = self.kubectl("exec", name, "--", "sh", "-c", LOOK)
        cards = {name: found.split()[:-1] for name, found in seen.items()}
        granted = {name: int(found.split()[-1]) for name, found in seen.items()}
        shared = cards["share-4"] == cards["share-8"] != cards["share-12"]
        if not shared or any(len(each) != 1 for each in cards.values()):
            raise KindError(f"these are not the cards that the pods should share: {cards}")
        if granted != {name: units * 2**30 for name, units in PODS.items() if name in cards}:
            raise KindError(f"these are not the bytes that were asked for: {granted}")
        self._await_refusal("share-20", "insufficient accelkit.io/memory in one card")

    def check_accounts(self) -> None:
        """Fail unless assignments, kubelets and ledger agree, by a checker that shares no code with accelkit."""
        print(f"  {run(sys.executable, str(CHECK), '--kubeconfig', str(self.kubeconfig)).strip()}", flush=True)

    def _await_refusal(self, pod: str, sentence: str) -> None:
        path = '{.status.conditions[?(@.type=="PodScheduled")].message}'
        deadline = time.monotonic() + POD_SECONDS
        while sentence not in (output := self.kubectl("get", "pod", pod, f"--output=jsonpath={path}")):
            if time.monotonic() > deadline:
                raise KindError(f"the scheduler does not refuse {pod} with {sentence!r}: {output or 'it says nothing'}")
            time.sleep(1)

    def read_phase(self, pod: str) -> str:
        """Return the phase of a pod."""
        return self.kubectl("get", "pod", pod, "--output=jsonpath={.status.phase}")

    def list_containers(self) -> dict[str, str]:
        """Return the container of each pod that shares a card, by which a restart would be seen."""
        path = "jsonpath={.status.phase} {.status.containerStatuses[0].containerID}"
        return {name: self.kubectl("get", "pod", name, "--output", path) for name in PODS if name != "share-20"}


def build_pod(name: str, units: int, node: str) -> dict[str, object]:
    """Return a pod that asks for a share."""
    container = {
        "name": "main",
        "image": "docker.io/library/busybox:latest",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "86400"],
        "resources": {"limits": {"accelkit.io/memory": str(units)}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [container],
        },
    }


def run(
    *command: str, stdin: str | None = None, environment: dict[str, str] | None = None, seconds: float = 120
) -> str:
    """Run a command; return what it prints.

    Raises:
        KindError: it failed, or did not end in time.
    """
    environ = {**os.environ, **(environment or {})}
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=seconds, env=environ, check=False
        )
    except subprocess.TimeoutExpired as exc:
        raise KindError(f"{' '.join(command[:4])} did not end within {seconds:.0f} s") from exc
    if done.returncode:
        output = "\n".join(filter(None, (done.stdout[-4000:], done.stderr[-2000:])))
        raise KindError(f"{' '.join(command[:4])} failed with {done.returncode}:\n{output}")
    return done.stdout
