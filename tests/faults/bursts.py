"""Create many pods at once, again and again, and check the accounts 45 s after the last one is bound.

    make demo && kubectl delete pods --all                            # with its KUBECONFIG; they leave too little room
    python tests/faults/bursts.py                                     # 150 pods, three bursts, ten times
    python tests/faults/bursts.py --pause etcd --times 1              # etcd stands still amid 120 binds
    python tests/faults/bursts.py --kubeconfig FILE                   # 100 pods on a cluster made by kind
    python tests/faults/bursts.py --mixed                             # pods of several shapes, with init containers too

The checker shares no code with accelkit, and looks all the time: no card may be over its capacity at any moment. The
exit status is 1 where anything was wrong, 2 where the cluster cannot be read.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.check_cluster import add_cluster_options, open_cluster
from faults.checker import Judge, Violation, check
from faults.clusters import Cluster
from faults.counting import count_assigned
from faults.facts import WHOLE, Facts, Pod
from faults.reading import UnreadableError

from accelkit.sandbox.layout import find_default_root
from accelkit.sandbox.processes import Identity, find_sandbox_processes, send

PODS = "/api/v1/namespaces/default/pods"
LABEL = "accelkit-burst"
SETTLE_SECONDS = 45.0
# For all pods of a burst to run, and for all to be gone.
DEADLINE_SECONDS = 600.0
PROGRESS_SECONDS = 10.0
LOOK_SECONDS = 0.5
# Kubelets, pods and the ledger are not read in the same moment.
LOOKS = 3
CONNECTIONS = 8
# Which process of `make demo` is paused, by a word of its command, and for how many seconds.
PAUSES = {"apiserver": ("kube-apiserver", 20.0), "etcd": ("etcd", 20.0), "extender": ("extender", 25.0)}


class Shape(NamedTuple):
    """What a pod asks for: GiB by container, of those that run and of init containers."""

    containers: tuple[int, ...]
    init_containers: tuple[int, ...] = ()

    def count_units(self) -> int:
        """Return how many GiB the pod holds."""
        return max(sum(self.containers), *self.init_containers, 0)


EQUAL = Shape((1,))
# Requests that come up in several of these: who is meant by an allocation of one GiB follows from the order alone.
MIXED = (EQUAL, Shape((2,), (1,)), Shape((1, 1)), Shape((2,)))


class Burst:
    """One burst of pods on a cluster; `pause` stops a process amid the binds."""

    def __init__(
        self, cluster: Cluster, pods: int, pause: Callable[[], None] | None, shapes: Sequence[Shape] = (EQUAL,)
    ) -> None:
        self._cluster = cluster
        self._pods = pods
        self._shapes = shapes
        self._pause = pause
        self._judge = Judge()
        self._expected: dict[str, str] = {}
        self._began = time.monotonic()
        self.wrong: list[str] = []
        self.refused = 0

    def run(self) -> str:
        """Run it; return what happened in a line.

        Raises:
            UnreadableError: the cluster cannot be read.
        """
        self._create()
        if self._pause is not None:
            self._await("a third of the pods is bound", lambda pods: sum(map(_is_bound, pods)) >= self._pods // 3)
            self._pause()
        bound = self._await("all pods are bound", lambda pods: sum(map(_is_bound, pods)) == self._pods)
        settled = time.monotonic() + SETTLE_SECONDS
        run = self._await("all pods run", lambda pods: all(pod.phase in ("Running", "Failed") for pod in pods))
        while time.monotonic() < settled:
            self._look()
            time.sleep(LOOK_SECONDS)
        violations = self._check()
        findings = self._cluster.audit()
        self.wrong += [f"checker: {each}" for each in violations]
        self.wrong += [f"audit: {each['kind']}: {each['message']}" for each in findings]
        if self.refused and self._pause is None:
            self.wrong.append(f"kubelets refused {self.refused} pods although nothing was broken")
        return (
            f"{self._pods} pods, bound after {bound:.1f} s, all run after {run:.1f} s, refused: {self.refused},"
            f" checker: {len(violations)} violations, audit: {len(findings)} findings"
        )

    def _create(self) -> None:
        self._began = time.monotonic()
        connections = [self._cluster.api.copy() for _ in range(CONNECTIONS)]

        def create(number: int) -> None:
            for at in range(number, self._pods, CONNECTIONS):
                made = connections[number].ask("POST", PODS, build_pod(f"burst-{at}", choose(self._shapes, at)))[
                    "metadata"
                ]
                self._expected[made["uid"]] = f"default/{made['name']}"

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(create, range(CONNECTIONS)))
        for connection in connections:
            connection.close()

    def _await(self, what: str, holds: Callable[[Sequence[Pod]], bool]) -> float:
        """Look until something holds of the pods; return the seconds since they were created."""
        shown = self._began
        while True:
            pods = self._look()
            now = time.monotonic()
            if pods and holds(pods):
                return now - self._began
            if now - self._began > DEADLINE_SECONDS:
                self.wrong.append(f"not after {DEADLINE_SECONDS:.0f} s: {what}")
                return now - self._began
            if now - shown > PROGRESS_SECONDS:
                shown = now
                bound = f"{sum(map(_is_bound, pods))} bound" if pods else "the cluster cannot be read now"
                print(f"  {now - self._began:.0f} s: waiting until {what}; {bound}", flush=True)
            time.sleep(LOOK_SECONDS / 2)

    def _look(self) -> Sequence[Pod]:
        """Check what must hold at all times; return the pods of the burst, none while the cluster cannot be read."""
        try:
            facts = self._cluster.reader.read()
        except UnreadableError:
            return ()
        found = self._find(facts)
        for each in self._judge.observe(found, time.monotonic(), quiet_since=None):
            self.wrong.append(f"at some time: {each}")
        pods = [pod for pod in facts.pods if pod.uid in self._expected]
        self.refused = sum(pod.reason == "UnexpectedAdmissionError" for pod in pods)
        return pods

    def _check(self) -> Sequence[Violation]:
        """Return what does not hold in several looks, one after the other.

        Raises:
            UnreadableError: the cluster cannot be read.
        """
        lasting: set[Violation] | None = None
        for _ in range(LOOKS):
            found = set(self._find(self._cluster.reader.read()))
            lasting = found if lasting is None else lasting & found
            if not lasting:
                return []
            time.sleep(1)
        return sorted(lasting or ())

    def _find(self, facts: Facts) -> Sequence[Violation]:
        return check(facts, expected=self._expected, exact_kubelets=self._cluster.exact_kubelets)


def _is_bound(pod: Pod) -> bool:
    return bool(pod.node)


def build_pod(name: str, shape: Shape, resource: str = "accelkit.io/memory") -> dict[str, Any]:
    """Return a pod of a shape, which requests a resource."""

    def build(kind: str, number: int, units: int, command: Sequence[str]) -> dict[str, Any]:
        limits = {resource: str(units)}
        image = {"image": "busybox", "imagePullPolicy": "IfNotPresent"}
        return {"name": f"{kind}-{number}", **image, "command": command, "resources": {"limits": limits}}

    containers = [build("main", number, units, ["sleep", "100000"]) for number, units in enumerate(shape.containers)]
    inits = [build("init", number, units, ["true"]) for number, units in enumerate(shape.init_containers)]
    times = {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never"}
    spec = {**times, "initContainers": inits, "containers": containers}
    return {"metadata": {"name": name, "labels": {"app": LABEL}}, "spec": spec}


def choose(shapes: Sequence[Shape], number: int) -> Shape:
    """Return the shape of the pod with this number."""
    return shapes[number % len(shapes)]


def count_room(facts: Facts) -> int:
    """Return how many GiB are left beside the pods that hold cards."""
    free = {
        (node.name, card.id): card.capacity // node.unit
        for node in facts.nodes.values()
        if node.schedulable
        for card in node.cards.values()
        if card.usable
    }
    for pod in facts.pods:
        for card, amount in count_assigned(pod).items() if pod.holds else ():
            if (place := (pod.node, card)) in free:
                unit = facts.nodes[pod.node].unit
                free[place] = 0 if amount == WHOLE else max(0, free[place] + (-amount // unit))
    return sum(free.values())


def clean_up(cluster: Cluster) -> None:
    """Delete the pods of bursts, and wait until they are gone.

    Raises:
        UnreadableError: they are not.
    """
    path, deadline = f"{PODS}?labelSelector=app%3D{LABEL}", time.monotonic() + DEADLINE_SECONDS
    while True:
        with contextlib.suppress(UnreadableError):
            if not cluster.api.ask("DELETE", path)["items"] and not cluster.api.get(path)["items"]:
                return
        if time.monotonic() > deadline:
            raise UnreadableError(f"the pods of the burst are not gone after {DEADLINE_SECONDS:.0f} s")
        time.sleep(1)


def find_process(root: Path, word: str) -> Identity:
    """Return the process of a sandbox whose command has a word.

    Raises:
        UnreadableError: there is none, or there are several.
    """
    found = []
    for process in find_sandbox_processes(root):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            if word in (Path(words[0]).name, *words[1:]):
                found.append(process)
    if len(found) != 1:
        raise UnreadableError(f"{len(found)} processes of {root} are {word}, and not one")
    return found[0]


def pause(root: Path, name: str) -> None:
    """Stop a process of a sandbox for some seconds.

    Raises:
        UnreadableError: it is not found.
    """
    word, seconds = PAUSES[name]
    process = find_process(root, word)
    print(f"  {name} ({process.pid}) stands still for {seconds:.0f} s", flush=True)
    send(process, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        send(process, signal.SIGCONT)


def run(options: argparse.Namespace) -> int:
    """Run all bursts; return how many were wrong.

    Raises:
        UnreadableError: the cluster cannot be read.
    """
    cluster = open_cluster(options)
    stop = (lambda: pause(options.sandbox, options.pause)) if options.pause else None
    wrong = 0
    clean_up(cluster)
    shapes = MIXED if options.mixed else (EQUAL,)
    wanted = sum(choose(shapes, number).count_units() for number in range(options.pods))
    if (room := count_room(cluster.reader.read())) < wanted:
        raise UnreadableError(
            f"{options.pods} pods of {wanted} GiB do not fit: the cards have {room} GiB. Delete the pods that hold"
            " cards, or name fewer by --pods"
        )
    try:
        for number in range(options.times * options.bursts):
            clean_up(cluster)
            burst = Burst(cluster, options.pods, stop, shapes)
            line = burst.run()
            where = f"time {number // options.bursts + 1} of {options.times}, burst {number % options.bursts + 1}"
            print(f"{where}: {line}", flush=True)
            for each in burst.wrong:
                print(f"  WRONG {each}", flush=True)
            wrong += bool(burst.wrong)
    finally:
        clean_up(cluster)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_cluster_options(parser, required=False)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--bursts", type=int, default=3, help="each time")
    parser.add_argument("--pods", type=int, help="of a burst; default: 150, on kind 100, and 120 with --pause")
    parser.add_argument("--pause", choices=PAUSES, help="stop this process of `make demo` amid the binds")
    parser.add_argument("--mixed", action="store_true", help="pods of several shapes; half as many by default")
    options = parser.parse_args()
    if options.kubeconfig is not None and options.pause:
        parser.error("--pause stops processes of `make demo`, which a cluster made by kind does not have")
    if options.kubeconfig is None:
        options.sandbox = options.sandbox or find_default_root(os.environ)
    default = 100 if options.kubeconfig else 120 if options.pause else 150
    options.pods = options.pods or (default // 2 if options.mixed else default)
    try:
        wrong = run(options)
    except UnreadableError as exc:
        print(f"cannot run bursts: {exc}", file=sys.stderr)
        return 2
    print(f"{options.times * options.bursts} bursts of {options.pods} pods: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
