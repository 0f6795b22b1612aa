"""Change settings with site.yml while pods are created and deleted, kill runs of it, and check the accounts.

    make demo && kubectl delete pods --all                  # with its KUBECONFIG; they leave too little room
    python tests/faults/playbooks.py                        # five rounds with a new seed, printed first
    python tests/faults/playbooks.py --seed 7 --rounds 1    # one of them again

Each round draws dialects and a policy, creates and deletes pods of two dialects all the time, kills a run of site.yml
in a random task or starts two at once, and then runs site.yml to its end. The checker, which shares no code with
accelkit, and `accelkit audit` check the result. The exit status is 1 where anything was wrong, 2 where the cluster
cannot be read.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.bursts import PODS, Shape, build_pod, clean_up
from faults.check_cluster import find_overdue
from faults.checker import Judge, check
from faults.clusters import Cluster, open_sandbox
from faults.reading import UnreadableError

from accelkit.sandbox.layout import find_default_root

REPOSITORY = Path(__file__).resolve().parents[2]
ANSIBLE_PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
# The nodes offer the resources of the first dialect; pods of the others wait.
DIALECTS = (("native",), ("gcushare",), ("native", "gcushare"), ("gcushare", "native"))
POLICIES = ("binpack", "spread")
MEMORY = ("accelkit.io/memory", "enflame.com/gcu-memory")
# Twice as many as the cards of `make demo` hold, so that pods wait in each round.
MOST_PODS = 450
CREATED_AT_ONCE = 12
STEP_SECONDS = 0.5
PLAYBOOK_SECONDS = 900.0
# site.yml prints so many tasks where it changes something.
TASKS = 95
LONGEST_DELAY_SECONDS = 2.0
# A run that was killed holds its Lease until the process that renews it notices.
LEASE_SECONDS = 90.0
LOCKED = "has been changing this cluster since"


class Churn:
    """Creates and deletes pods until it is stopped, and checks what must hold at all times.

    Attributes:
        wrong: what did not hold.
        created, deleted: how many pods.
        refused: UIDs of the pods that their kubelets refused.
    """

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self._api = cluster.api.copy()
        self._cluster = cluster
        self._chance = chance
        self._numbers = itertools.count()
        self._prefix = f"play-{chance.getrandbits(32):08x}"
        self._judge = Judge()
        self._expected: dict[str, str] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="churn")
        self.wrong: list[str] = []
        self.created = self.deleted = 0
        self.refused: set[str] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._ended.set()
        self._thread.join()
        self._api.close()

    def _run(self) -> None:
        while not self._ended.wait(STEP_SECONDS):
            with contextlib.suppress(UnreadableError):
                self._change()
                self._look()

    def _change(self) -> None:
        names = sorted(self._expected.items())
        if len(names) < MOST_PODS and self._chance.random() < 0.5:
            for _ in range(self._chance.randint(1, CREATED_AT_ONCE)):
                resource, units = self._chance.choice(MEMORY), self._chance.choice((1, 1, 1, 2, 4))
                name = f"{self._prefix}-{next(self._numbers)}"
                pod = self._api.ask("POST", PODS, build_pod(name, Shape((units,)), resource))
                self._expected[pod["metadata"]["uid"]] = f"default/{pod['metadata']['name']}"
                self.created += 1
        elif names:
            for uid, path in self._chance.sample(names, min(len(names), self._chance.randint(1, 6))):
                del self._expected[uid]
                self._api.ask("DELETE", f"{PODS}/{path.partition('/')[2]}")
                self.deleted += 1

    def _look(self) -> None:
        facts = self._cluster.reader.read()
        self.refused |= {pod.uid for pod in facts.pods if pod.reason == "UnexpectedAdmissionError"}
        found = check(facts, expected=self._expected, exact_kubelets=True)
        for each in self._judge.observe(found, time.monotonic(), quiet_since=None):
            self.wrong.append(f"at some time: {each}")


class Playbook:
    """One run of site.yml, in a process group of its own."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill_in_task(self, number: int, delay: float) -> str:
        """Kill the run some seconds after it began its task of this number; return where it was."""
        deadline = time.monotonic() + PLAYBOOK_SECONDS
        while self._process.poll() is None and len(self._list_tasks()) < number and time.monotonic() < deadline:
            time.sleep(0.05)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return f"ended with {self._process.wait(delay)} before task {number}"
        self._kill()
        return f"killed in task {len(tasks := self._list_tasks())}: {tasks[-1]}"

    def _kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _list_tasks(self) -> Sequence[str]:
        return re.findall(r"^TASK \[(.*)\]", self._log.read_text(), re.MULTILINE)

    def wait(self) -> int:
        """Return the exit status.

        Raises:
            UnreadableError: the run did not end in time.
        """
        try:
            return self._process.wait(PLAYBOOK_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
            raise UnreadableError(f"site.yml did not end within {PLAYBOOK_SECONDS:.0f} s: see {self._log}") from None

    def is_locked_out(self) -> bool:
        """Return whether the run ended because another run holds the Lease."""
        return LOCKED in self._log.read_text()


class Round:
    """One change of settings, interrupted or not."""

    def __init__(self, cluster: Cluster, chance: random.Random, logs: Path) -> None:
        self._cluster = cluster
        self._chance = chance
        self._logs = logs
        self._numbers = itertools.count()
        self.wrong: list[str] = []

    def run(self) -> str:
        """Run it; return what happened in a line.

        Raises:
            UnreadableError: the cluster cannot be read, or site.yml did not end.
        """
        settings = self._draw_settings()
        with Churn(self._cluster, random.Random(self._chance.getrandbits(64))) as churn:
            happened = self._interrupt(settings)
            self._finish(settings)
        overdue, pods = find_overdue(self._cluster.reader, exact_kubelets=True)
        findings = self._cluster.audit()
        self.wrong += [*churn.wrong, *(f"checker: {each}" for each in overdue)]
        self.wrong += [f"audit: {each['kind']}: {each['message']}" for each in findings]
        return (
            f"{settings['accelkit_dialects']}, {settings['accelkit_policy']}; {happened}; {churn.created} pods created,"
            f" {churn.deleted} deleted, {len(churn.refused)} refused, {pods} checked: {len(self.wrong)} wrong"
        )

    def _draw_settings(self) -> dict[str, Any]:
        return {
            "accelkit_dialects": list(self._chance.choice(DIALECTS)),
            "accelkit_policy": self._chance.choice(POLICIES),
        }

    def _start(self, settings: Mapping[str, object]) -> Playbook:
        options = ["site.yml", "-i", "inventories/sandbox", "-e", json.dumps(settings)]
        return Playbook([str(ANSIBLE_PLAYBOOK), *options], self._logs / f"{next(self._numbers)}.log")

    def _interrupt(self, settings: Mapping[str, object]) -> str:
        """Kill a run, or start two at once."""
        if self._chance.random() < 0.7:
            return self._start(settings).kill_in_task(
                self._chance.randint(1, TASKS), self._chance.uniform(0, LONGEST_DELAY_SECONDS)
            )
        runs = [self._start(settings), self._start(self._draw_settings())]
        codes = [run.wait() for run in runs]
        locked = [run.is_locked_out() for run in runs]
        if sum(locked) != 1 or codes[locked.index(False)]:
            self.wrong.append(f"of two runs of site.yml at once, one must end with 0 and one be refused: {codes}")
        return f"two runs at once ended with {codes}"

    def _finish(self, settings: Mapping[str, object]) -> None:
        """Run site.yml to its end, after the Lease of a run that was killed has expired.

        Raises:
            UnreadableError: it did not end.
        """
        deadline = time.monotonic() + LEASE_SECONDS
        while (run := self._start(settings)).wait():
            if not run.is_locked_out() or time.monotonic() > deadline:
                self.wrong.append(f"site.yml failed: see {self._logs}")
                return


def run(options: argparse.Namespace, seed: int) -> int:
    """Run all rounds; return how many were wrong.

    Raises:
        UnreadableError: the cluster cannot be read, or site.yml did not end.
    """
    cluster = open_sandbox(options.sandbox)
    chance = random.Random(seed)
    wrong = 0
    for number in range(options.rounds):
        clean_up(cluster)
        logs = options.logs / str(seed) / str(number + 1)
        logs.mkdir(parents=True, exist_ok=True)
        this = Round(cluster, random.Random(chance.getrandbits(64)), logs)
        print(f"round {number + 1}: {this.run()}", flush=True)
        for each in this.wrong:
            print(f"  WRONG {each}", flush=True)
        wrong += bool(this.wrong)
    clean_up(cluster)
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="default: a new one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sandbox", type=Path, default=find_default_root(os.environ), help="folder of the cluster")
    parser.add_argument("--logs", type=Path, default=REPOSITORY / "build" / "playbooks", help="of the runs of site.yml")
    options = parser.parse_args(arguments)
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    try:
        wrong = run(options, seed)
    except UnreadableError as exc:
        print(f"cannot run playbooks: {exc}", file=sys.stderr)
        return 2
    print(f"{options.rounds} rounds: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
