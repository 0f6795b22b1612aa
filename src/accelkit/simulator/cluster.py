"""The nodes of a trace in a ledger, and the free CPU and memory of their hosts, which kube-scheduler also checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from accelkit.ledger.ledger import Ledger
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.pod import PodRef
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.mix import TaskType
from accelkit.placement.policies import Policy
from accelkit.simulator.trace import WHOLE_MILLI, Task, TraceNode

# The number of bytes that represent one thousandth of a card. Traces do not contain the memory size of cards.
_UNIT: Final = 2**20

Rows = npt.NDArray[np.int64]


class Cluster:
    """The nodes with their cards and hosts. Placed tasks run until they are removed.

    Attributes:
        ledger: the ledger with the nodes. Each node is a row, in the order of the trace.
        cards: the total number of cards.
        used_milli: the allocated amount of all cards, in thousandths of a card.
    """

    def __init__(self, nodes: Sequence[TraceNode]) -> None:
        self.ledger = Ledger(unit_bytes=_UNIT)
        self.cards = sum(node.cards for node in nodes)
        self.used_milli = 0
        self._names = [node.name for node in nodes]
        self._cpu = np.array([node.cpu_milli for node in nodes], dtype=np.int64)
        self._host = np.array([node.memory_mib for node in nodes], dtype=np.int64)
        self._models = np.array([node.model for node in nodes])
        self._allowed: dict[frozenset[str], npt.NDArray[np.bool_]] = {}
        self._placed = 0
        for row, node in enumerate(nodes):
            names = (f"{node.name}-{index}" for index in range(node.cards))
            cards = tuple(Card(name, "trace", node.model, WHOLE_MILLI * _UNIT) for name in names)
            self.ledger.put_node(node.name, Inventory(_UNIT, cards))
            self._note_host(row)

    def find_rows(self, task: Task) -> Rows:
        """Return the rows with sufficient host resources and an allowed card model, as in a filter call."""
        fits = (self._cpu >= task.cpu_milli) & (self._host >= task.memory_mib)
        return np.nonzero(fits & self.allows(task) if task.models else fits)[0]

    def allows(self, task: Task) -> npt.NDArray[np.bool_]:
        """Return, for each row, whether the task may use the card model of the node."""
        if task.models not in self._allowed:
            every = np.ones(len(self._models), dtype=np.bool_)
            self._allowed[task.models] = np.isin(self._models, sorted(task.models)) if task.models else every
        return self._allowed[task.models]

    def place(self, task: Task, row: int, policy: Policy) -> str:
        """Place a task on a node on which it fits; return its UID. The ledger chooses the cards as in a bind call."""
        self._placed += 1
        ref = PodRef("trace", f"task-{self._placed}", str(self._placed))
        if task.cards:
            self.ledger.reserve(ref, self._names[row], make_request(task), policy)
            self.ledger.accept(ref.uid)
            self.used_milli += task.demand_milli
        self._cpu[row] -= task.cpu_milli
        self._host[row] -= task.memory_mib
        self._note_host(row)
        return ref.uid

    def remove(self, uid: str, task: Task, row: int) -> None:
        """Remove a task from the node on which it was placed."""
        if self.ledger.release(uid):
            self.used_milli -= task.demand_milli
        self._cpu[row] += task.cpu_milli
        self._host[row] += task.memory_mib
        self._note_host(row)

    def measure_host(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the free CPU of the hosts, in thousandths of a CPU, and their free memory, in MiB."""
        return self._cpu[rows], self._host[rows]

    def _note_host(self, row: int) -> None:
        self.ledger.table.set_host(row, float(self._cpu[row]), float(self._host[row]) * _UNIT)


def make_request(task: Task) -> PodRequest:
    """Return the request of a pod with one container, which represents a task."""
    whole = task.milli == WHOLE_MILLI
    return PodRequest(
        (ContainerRequest("main", Kind.APP, task.cards, 0 if whole else task.milli * _UNIT, whole=whole),)
    )


def make_type(task: Task) -> TaskType:
    """Return the type of a task in a task mix."""
    share = 0 if task.milli == WHOLE_MILLI else task.milli * _UNIT
    return TaskType(task.cards, share, task.cpu_milli, task.memory_mib * _UNIT)
