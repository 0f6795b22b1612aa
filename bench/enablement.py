"""How long a cluster takes from bare nodes to checked ones, again, and to be verified, as nodes become more.

A sandbox of nodes that have cards of five vendors in turn: AMD's, Intel's, Enflame's and Habana's as files, and
simulated ones. `site.yml` runs twice, with its checks of the nodes; then `verify.yml`, and `accelkit verify`. The
second run may change nothing. The control plane, the kubelets, the agents and Ansible share this machine, so that
seconds say little of another one: ratios are what is compared. A node takes some 100 MiB of memory.
Prints JSON; seconds of each step go to stderr as they are known.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import world
from figures import Figure, report

from accelkit.sandbox.fake_host.host import FakeHost
from accelkit.sandbox.layout import SandboxPaths

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
# Of each vendor, so many cards of a model; the empty name stands for simulated ones.
VENDORS = (("amd", 4, "MI210"), ("intel", 2, "Flex 170"), ("enflame", 2, "S60"), ("gaudi", 2, "Gaudi2"), ("", 4, ""))
AIM_OF_CHANGED = 0
# A second run only looks, and a look at all nodes is a few lists.
AIM_OF_SECOND = 1.0
SECONDS_OF_A_STEP = 3600
_RECAP = re.compile(r"changed=(\d+)")
# As the roles have it; agents that start side by side on one machine take longer.
_ROLLOUT_SECONDS = 180
_ROLLOUT_SECONDS_OF_A_NODE = 6


@dataclass(frozen=True)
class Step:
    """A program that ended: how long it took, and what it printed."""

    seconds: float
    printed: str
    code: int

    @property
    def changed(self) -> int:
        """How many tasks of a playbook changed something."""
        return sum(int(count) for count in _RECAP.findall(self.printed.partition("PLAY RECAP")[2]))


class Nodes:
    """A sandbox of so many nodes, without anything of accelkit's installed."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._folder = Path(tempfile.mkdtemp(prefix="ak-"))
        self._paths = SandboxPaths(self._folder / "sandbox")
        self.names = [f"node-{number}" for number in range(count)]

    @property
    def environ(self) -> dict[str, str]:
        """Variables by which programs find the sandbox."""
        kubeconfig = str(self._paths.build_kubeconfig_path("admin"))
        return {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "ACCELKIT_SANDBOX": str(self._paths.root),
            "KUBECONFIG": kubeconfig,
            "ANSIBLE_NOCOLOR": "1",
        }

    def up(self) -> None:
        """Start it, and put cards into its nodes."""
        lines = ["nodes:"]
        for name, (vendor, count, _) in self._list_cards():
            cards = "" if vendor else f", cards: [{{count: {count}, memory: 16GiB}}]"
            lines.append(f"  - {{name: {name}{cards}}}")
        file = self._folder / "nodes.yaml"
        file.write_text("\n".join(lines))
        port = str(world.find_free_port())
        self._accelkit("up", "--nodes", str(file), "--extender-port", port, "--timeout", str(180 + 3 * self._count))
        for name, (vendor, count, model) in self._list_cards():
            if vendor:
                FakeHost(self._paths.nodes / name).add(vendor, count, model)

    def down(self) -> None:
        """Stop and delete it."""
        self._accelkit("down")
        shutil.rmtree(self._folder)

    def run(self, name: str, *command: str | Path, codes: Sequence[int] = (0,)) -> Step:
        """Run a program from the checkout; what ends otherwise than it may ends the benchmark."""
        started = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=SECONDS_OF_A_STEP,
            check=False,
        )
        seconds = time.perf_counter() - started
        print(f"{self._count} nodes, {name}: {seconds:.1f} s", file=sys.stderr, flush=True)
        if done.returncode not in codes:
            raise SystemExit(f"{name} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
        return Step(seconds, done.stdout, done.returncode)

    def play(self, name: str, playbook: str, *, codes: Sequence[int] = (0,)) -> Step:
        """Run a playbook on all nodes."""
        timeout = max(_ROLLOUT_SECONDS, _ROLLOUT_SECONDS_OF_A_NODE * self._count)
        given = {"accelkit_shared_nodes": self.names, "device_plugin_timeout": timeout}
        command = (BIN / "ansible-playbook", playbook, "-i", "inventories/sandbox", "-e", json.dumps(given))
        return self.run(name, *command, codes=codes)

    def _list_cards(self) -> list[tuple[str, tuple[str, int, str]]]:
        return [(name, VENDORS[number % len(VENDORS)]) for number, name in enumerate(self.names)]

    def _accelkit(self, action: str, *arguments: str) -> None:
        root = ("--root", str(self._paths.root))
        self.run(f"sandbox {action}", sys.executable, "-m", "accelkit", "sandbox", action, *root, *arguments)


def measure(count: int) -> dict[str, object]:
    """Install on so many nodes, again, and verify; return what it took, and how the stages stand."""
    nodes = Nodes(count)
    try:
        nodes.up()
        first = nodes.play("first site.yml", "site.yml")
        second = nodes.play("second site.yml", "site.yml")
        # Faults of stages are counted below, and no failure of the benchmark.
        verified = nodes.play("verify.yml", "playbooks/verify.yml", codes=(0, 2))
        command = (sys.executable, "-m", "accelkit", "verify", "-o", "json")
        run = nodes.run("accelkit verify", *command, codes=(0, 3, 4))
    finally:
        nodes.down()
    return {
        "first_seconds": round(first.seconds, 1),
        "second_seconds": round(second.seconds, 1),
        "verify_seconds": round(verified.seconds, 1),
        "command_seconds": round(run.seconds, 2),
        "second_to_first": Figure(round(second.seconds / first.seconds, 3), AIM_OF_SECOND),
        "second_changed": Figure(second.changed, AIM_OF_CHANGED),
        "verify_code": verified.code,
        "stages": count_outcomes(json.loads(run.printed)),
    }


def count_outcomes(report: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return by stage how many nodes ended how on it, without what none did."""
    return {
        str(row["stage"]): {outcome: count for outcome, count in row["counts"].items() if count}
        for row in report["summary"]
    }


def compare(results: Mapping[int, Mapping[str, object]]) -> dict[str, object]:
    """Return how the times of the most nodes are to those of the fewest; they shall not grow by more than the nodes."""
    fewest, most = min(results), max(results)
    steps = ("first_seconds", "second_seconds", "verify_seconds", "command_seconds")
    return {
        step.removesuffix("_seconds"): Figure(
            round(float(str(results[most][step])) / float(str(results[fewest][step])), 2), most / fewest
        )
        for step in steps
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", nargs="+", type=int, default=[50], help="how many, one size after the other")
    options = parser.parse_args()
    results = {count: measure(count) for count in sorted(set(options.nodes))}
    found: dict[str, object] = {f"nodes={count}": each for count, each in results.items()}
    if len(results) > 1:
        found["growth"] = compare(results)
    report(found)


if __name__ == "__main__":
    main()
