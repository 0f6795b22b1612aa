"""Looks at the cluster every second during a storm, and says what lasts too long."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from faults.checker import Judge, Violation, check
from faults.clusters import BESIDE_THE_POINT, read_file_checkpoint
from faults.facts import Facts
from faults.history import History
from faults.laboratory import NAMESPACE, Laboratory
from faults.reading import HttpsSource, Reader, UnreadableError, open_api
from faults.standstill import MachineClock

LOOK_SECONDS = 1.0
# An extender that answers later is silent for kube-scheduler as well, nearly.
LEDGER_SECONDS = 3.0
# What was read over a longer time than this does not belong together.
MOST_LOOK_SECONDS = 6.0


class Observer:
    """Reads and checks.

    Args:
        laboratory: what is read.
        history: takes what changed.
        expected: returns name by UID of the pods that must exist.
        clock: by which deadlines are measured.

    Attributes:
        overdue: the violations that lasted too long.
        found: what did not hold at the last look; None before the first one.
        facts: of the last look.
    """

    def __init__(
        self,
        laboratory: Laboratory,
        history: History,
        expected: Callable[[], Mapping[str, str]],
        clock: MachineClock,
    ) -> None:
        self.clock = clock
        self._laboratory = laboratory
        self._history = history
        self._expected = expected
        self._judge = Judge()
        self._reader = Reader(open_api(laboratory.admin), self._read_checkpoint, self._open_ledger())
        self._unreadable_since: float | None = None
        self.overdue: list[Violation] = []
        self.found: Sequence[Violation] | None = None
        self.facts: Facts | None = None
        self.looks = 0
        # The nodes of pods that their kubelets did not admit, by the pods' UIDs.
        self.refused: dict[str, str] = {}
        # When the last fault ended; None while there is one.
        self.quiet_since: float | None = clock.seconds

    async def run(self) -> None:
        """Look every second until cancelled."""
        while True:
            began = time.monotonic()
            await self.look()
            await asyncio.sleep(max(0.1, LOOK_SECONDS - (time.monotonic() - began)))

    async def look(self) -> None:
        # What is deleted while the cluster is read is not expected any more when it is checked.
        before, began = dict(self._expected()), time.monotonic()
        try:
            facts = await asyncio.to_thread(self._reader.read)
        except UnreadableError as exc:
            self._history.note(f"not read: {exc}")
            return
        if (seconds := time.monotonic() - began) > MOST_LOOK_SECONDS:
            self._history.note(f"left out a look that took {seconds:.1f} s")
            return
        after = self._expected()
        expected = {uid: name for uid, name in before.items() if uid in after}
        self._history.follow(facts)
        self.facts = facts
        found = check(facts, expected=expected)
        for each in sorted(set(found) - set(self.found or ())):
            self._history.note(f"does not hold: {each}")
        self.found = found
        self.looks += 1
        self.refused |= {pod.uid: pod.node for pod in facts.pods if pod.reason == "UnexpectedAdmissionError"}
        now, exact_now = self.clock.seconds, time.monotonic()
        for each in self._judge.observe(found, now, self.quiet_since, exact_now=exact_now):
            self.report(each)
        if not found:
            self._history.forget()

    def follow_faults(self, broken: bool) -> None:
        """Take that something is broken, or that nothing is any more."""
        self.quiet_since = None if broken else self.clock.seconds

    def report(self, violation: Violation) -> None:
        """Take a violation that is overdue."""
        self._history.note(f"VIOLATION {violation}")
        self.overdue.append(violation)

    async def audit(self, *, wait_seconds: int = 20) -> list[dict[str, Any]] | None:
        """Return what `accelkit audit` finds wrong with the accounts; None where it cannot tell."""
        pki = self._laboratory.paths.pki
        command = [
            *(sys.executable, "-m", "accelkit", "audit", "-o", "json", "--namespace", NAMESPACE),
            *("--wait", str(wait_seconds)),
            *("--kubeconfig", str(self._laboratory.admin)),
            *("--extender", f"https://127.0.0.1:{self._laboratory.service_port}"),
            *("--ca", str(pki / "extender-ca.crt"), "--cert", str(pki / "client.crt")),
            *("--key", str(pki / "client.key")),
        ]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        output, errors = await process.communicate()
        if process.returncode not in (0, 3):
            self._history.note(f"the audit ended with {process.returncode}: {errors.decode()[-500:]}")
            return None
        document = json.loads(output)
        return [each for each in document["findings"] if each["kind"] not in BESIDE_THE_POINT]

    def _read_checkpoint(self, node: str) -> bytes:
        return read_file_checkpoint(self._laboratory.roots[node])

    def _open_ledger(self) -> Callable[[], Mapping[str, Any]]:
        pki: Path = self._laboratory.paths.pki
        tls = ssl.create_default_context(cafile=str(pki / "extender-ca.crt"))
        tls.load_cert_chain(pki / "client.crt", pki / "client.key")
        url = f"https://127.0.0.1:{self._laboratory.service_port}"

        def ask() -> Mapping[str, Any]:
            # A connection stays with the replica to which it was made, and another one may lead by now.
            source = HttpsSource(url, tls, LEDGER_SECONDS)
            try:
                answer: Mapping[str, Any] = source.get("/inspect")
            finally:
                source.close()
            return answer

        return ask
