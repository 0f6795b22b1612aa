"""What tests of the cache agent need around it: its rights, images, commands, times."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from cache_agent_bed import DEADLINE, KEY, RULES, Bed
from cluster_objects import kubeconfig_of
from private_sigstore import Signer
from registries.artifact import Artifact
from registries.caches import cache_folder, publish, sign

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection

log = logging.getLogger(__name__)


def admit_agents(control_plane: Any, account: str) -> Path:
    """Make a kubeconfig that may do what an agent has to, and nothing else."""
    return asyncio.run(kubeconfig_of(control_plane, account, {"rules": RULES}))


@asynccontextmanager
async def open_bed(control_plane: Any, kubeconfig: Path, folder: Path, namespace: str = "") -> AsyncIterator[Bed]:
    """A node, and a namespace of its own where none is given, gone at the end with the agent."""
    async with ApiClient(load_connection(control_plane.kubeconfig), timeout_seconds=60) as api:
        bed = Bed(api, kubeconfig, folder, namespace)
        try:
            yield bed
        finally:
            await bed.close()


async def image(host: str, folder: Path, repository: str, kernel: str = "add_kernel", signer: Signer = KEY) -> Artifact:
    """Push a signed image of a small cache."""

    def make() -> Artifact:
        made = publish(host, cache_folder(folder / repository / kernel, kernel=kernel), repository)
        sign(host, made, signer, repository)
        return made

    return await asyncio.to_thread(make)


async def deliver(bed: Bed, *options: str, protects: bool = True) -> Artifact:
    """Start the agent on a node that can load an image of the bed's registry, and wait until it has it."""
    made = await image(bed.registry.host, bed.folder, "team/add")
    await bed.create(bed.registry.host)
    bed.start(*options, protects=protects)
    await bed.cache(f"{bed.registry.host}/team/add:v1", made.digest)
    await bed.until("Ready", made.digest)
    return made


def run_command(*arguments: str) -> None:
    """Run a command of accelkit to its end."""
    subprocess.run([sys.executable, "-m", "accelkit", *arguments], check=True, timeout=DEADLINE, capture_output=True)


@contextmanager
def scanning(folder: Path, pods: Path) -> Iterator[None]:
    """Run `accelkit cache-scan` beside the agent."""
    command = [sys.executable, "-m", "accelkit", "cache-scan", "--folder", str(folder), "--pods-folder", str(pods)]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@contextmanager
def probing(port: int) -> Iterator[list[float]]:
    """Ask again and again whether the agent is well, as a kubelet does; yields the seconds that each answer took."""
    took: list[float] = []
    stop, answered = threading.Event(), threading.Event()

    def probe() -> None:
        while not stop.wait(0.1):
            began = time.monotonic()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=DEADLINE) as answer:
                    answer.read()
            except OSError:
                # Before it has begun it answers nobody; afterwards that is a failure.
                if took:
                    took.append(float("inf"))
            else:
                took.append(time.monotonic() - began)
                answered.set()

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        assert answered.wait(DEADLINE)
        yield took
    finally:
        stop.set()
        thread.join(DEADLINE)


@contextmanager
def measured(what: str) -> Iterator[Callable[[], float]]:
    """Log how long something took: `pytest -o log_cli=true -o log_cli_level=INFO` shows it."""
    began = time.monotonic()
    yield lambda: time.monotonic() - began
    log.info("%s: %.2f s", what, time.monotonic() - began)
