"""All nodes as columns of numbers, so that a simple request is judged on every node at once.

A request is simple when one container asks for cards without further constraints: nearly all are. For it the verdicts
here are exactly those of `fit.place`; a property test holds the two together.
"""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from accelkit.model.card import Health
from accelkit.model.request import PodRequest
from accelkit.placement.holding import NodeEntry

FITS: Final = 0
FULL: Final = 1
NEVER: Final = 2
PROBLEM: Final = 3

_Scalar = TypeVar("_Scalar", bound=np.generic)

_NONE = -1  # no card in this column: less than any amount, so nothing fits


def is_simple(request: PodRequest) -> bool:
    """Whether the table can judge the request alone."""
    if len(request.containers) != 1:
        return False
    container = request.containers[0]
    return not (container.model or container.same_card_as or container.link or container.numa or container.compute)


class Table:
    """One row per node, one column per card.

    Rows are kept for ever: a node that goes leaves a row of problem nodes, and takes it up again when it returns.
    `changed_at` holds, per row, the tick of its last change, so that a cached verdict knows which rows to judge again.
    """

    def __init__(self) -> None:
        self.tick = 0
        self.rows = 0
        self.changed_at: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.used_fraction: npt.NDArray[np.float64] = np.zeros(0, dtype=np.float64)
        self._known: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._free: npt.NDArray[np.int64] = np.zeros((0, 1), dtype=np.int64)
        self._capacity: npt.NDArray[np.int64] = np.zeros((0, 1), dtype=np.int64)
        self._empty: npt.NDArray[np.bool_] = np.zeros((0, 1), dtype=np.bool_)

    def add_row(self) -> int:
        """Append a row of an unknown node and return its number."""
        row = self.rows
        self.rows += 1
        if self.rows > len(self._known):
            self._grow(max(16, 2 * len(self._known)), self._free.shape[1])
        return row

    def update(self, entry: NodeEntry) -> None:
        """Copy a node's present state into its row."""
        self.tick += 1
        row = entry.row
        self.changed_at[row] = self.tick
        self._known[row] = entry.problem is None
        self._free[row], self._capacity[row], self._empty[row] = _NONE, _NONE, False
        states = entry.states()
        if len(states) > self._free.shape[1]:
            self._grow(len(self._known), len(states))
        used = total = 0
        for column, state in enumerate(states):
            capacity = state.card.capacity_bytes
            total += capacity
            used += capacity - max(0, state.free_bytes)
            # A card of unknown memory is of use only whole; as a share it must not fit, not even for 0 bytes.
            if state.card.health is not Health.UNHEALTHY:
                self._free[row, column] = state.free_bytes if capacity else _NONE
                self._capacity[row, column] = capacity
                self._empty[row, column] = state.empty
        self.used_fraction[row] = used / total if total else 0.0

    def judge(self, request: PodRequest) -> npt.NDArray[np.int8]:
        """Return FITS, FULL, NEVER or PROBLEM for each row. The request must be simple."""
        container = request.containers[0]
        rows = slice(0, self.rows)
        if container.whole:
            now, ever = self._empty[rows], self._capacity[rows] > _NONE
        else:
            # An amount of at least one byte never fits a card of unknown memory, whose capacity counts as 0.
            amount = max(1, container.memory_bytes)
            now, ever = self._free[rows] >= amount, self._capacity[rows] >= amount
        if container.cards == 1:
            fits, possible = now.any(axis=1), ever.any(axis=1)
        else:
            fits, possible = now.sum(axis=1) >= container.cards, ever.sum(axis=1) >= container.cards
        codes = np.where(fits, FITS, np.where(possible, FULL, NEVER)).astype(np.int8)
        codes[~self._known[rows]] = PROBLEM
        return codes

    def _grow(self, rows: int, columns: int) -> None:
        self.changed_at = _resized(self.changed_at, (rows,), 0)
        self.used_fraction = _resized(self.used_fraction, (rows,), 0.0)
        self._known = _resized(self._known, (rows,), fill=False)
        self._free = _resized(self._free, (rows, columns), _NONE)
        self._capacity = _resized(self._capacity, (rows, columns), _NONE)
        self._empty = _resized(self._empty, (rows, columns), fill=False)


def _resized(array: npt.NDArray[_Scalar], shape: tuple[int, ...], fill: float) -> npt.NDArray[_Scalar]:
    larger = np.full(shape, fill, dtype=array.dtype)
    larger[tuple(slice(0, length) for length in array.shape)] = array
    return larger
