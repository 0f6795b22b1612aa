"""Table of all nodes with numeric columns, in which a simple request can be checked on all nodes at once.

A request is simple if one container requests cards without further constraints. Nearly all requests are simple. For
simple requests, the table returns the same results as `fit.place`, which is verified by a property test.
"""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from accelkit.ledger.holding import NodeEntry
from accelkit.model.request import PodRequest
from accelkit.placement.card_state import CardState
from accelkit.placement.fragmentation import Columns

FITS: Final = 0
FULL: Final = 1
NEVER: Final = 2
PROBLEM: Final = 3

_Scalar = TypeVar("_Scalar", bound=np.generic)

_FIRST_ROWS = 16
_NONE = -1  # There is no card in this column. The value is lower than any amount, so that no request fits.


def is_simple(request: PodRequest) -> bool:
    """Return whether the table is sufficient to evaluate the request on nodes without reserved cards."""
    if len(request.containers) != 1:
        return False
    container = request.containers[0]
    constraints = (container.model, container.same_card_as, container.link, container.numa, container.compute)
    rest = (container.allowed, container.denied, container.min_memory_bytes, container.groups, container.amounts)
    named = (container.card_ids, container.beside, container.apart)
    return not any((*constraints, *rest, *named))


class Table:
    """A table with one row per node and one column per card.

    A new node may get the row of a removed node. `epoch` counts the removed nodes. When `epoch` changes, discard all
    data that is stored by node name. `changed_at` contains the tick of the last change to each row. Results that were
    cached before this tick are invalid.
    """

    def __init__(self) -> None:
        self.tick = 0
        self.epoch = 0
        self.rows = 0
        self._free_rows: list[int] = []
        self.changed_at: npt.NDArray[np.int64] = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self.used_fraction: npt.NDArray[np.float64] = np.zeros(_FIRST_ROWS, dtype=np.float64)
        self._known: npt.NDArray[np.bool_] = np.zeros(_FIRST_ROWS, dtype=np.bool_)
        # The cards are in descending order of free memory. If the card in column n has enough memory, at least n cards
        # do.
        self._free: npt.NDArray[np.int64] = np.full((_FIRST_ROWS, 1), _NONE, dtype=np.int64)
        self._capacity: npt.NDArray[np.int64] = np.full((_FIRST_ROWS, 1), _NONE, dtype=np.int64)
        # Arrays with values for the same cards in the same order.
        self._size: npt.NDArray[np.int64] = np.zeros((_FIRST_ROWS, 1), dtype=np.int64)
        self._untouched: npt.NDArray[np.bool_] = np.zeros((_FIRST_ROWS, 1), dtype=np.bool_)
        # A host with unknown amounts does not limit tasks.
        self._host_cpu: npt.NDArray[np.float64] = np.full(_FIRST_ROWS, np.inf)
        self._host_bytes: npt.NDArray[np.float64] = np.full(_FIRST_ROWS, np.inf)
        self._empty: npt.NDArray[np.int64] = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self._usable: npt.NDArray[np.int64] = np.zeros(_FIRST_ROWS, dtype=np.int64)

    def add_row(self) -> int:
        """Return the number of a free row for a new node."""
        if self._free_rows:
            return self._free_rows.pop()
        row = self.rows
        self.rows += 1
        if self.rows > len(self._known):
            self._grow(2 * len(self._known), self._free.shape[1])
        return row

    def free_row(self, row: int) -> None:
        """Free the row of a removed node. No request fits the row until it is assigned to another node."""
        self.tick += 1
        self.epoch += 1
        self._known[row] = False
        self._free[row], self._untouched[row] = _NONE, False
        self._host_cpu[row] = self._host_bytes[row] = np.inf
        self._free_rows.append(row)

    def update(self, entry: NodeEntry) -> None:
        """Copy the current state of a node into its row."""
        self.tick += 1
        entry.invalidate()
        row, states = entry.row, entry.list_card_states()
        if len(states) > self._free.shape[1]:
            self._grow(len(self._known), len(states))
        self.changed_at[row] = self.tick
        self._known[row] = entry.refusal is None
        usable = [state for state in states if state.card.placeable]
        # A card with unknown memory can be used only as a whole card. Its capacity is treated as 0, so that no amount
        # fits. Pods may have larger amounts than a column can store. Negative free memory has the same effect as 0.
        listed = sorted(usable, key=_get_column_free, reverse=True) if entry.refusal is None else []
        width = self._free.shape[1]
        self._free[row] = _fill([_get_column_free(state) for state in listed], width, _NONE)
        self._size[row] = _fill([state.card.own_bytes for state in listed], width, 0)
        self._untouched[row] = _fill([state.empty for state in listed], width, fill=False)
        self._capacity[row] = _fill(sorted((s.card.own_bytes for s in usable), reverse=True), width, _NONE)
        self._empty[row] = sum(state.empty for state in usable)
        self._usable[row] = len(usable)
        total = sum(state.card.capacity_bytes for state in states)
        free = sum(max(0, state.free_bytes) for state in states)
        self.used_fraction[row] = (total - free) / total if total else 0.0

    def set_host(self, row: int, cpu_milli: float, host_bytes: float) -> None:
        """Set the free amounts of a node's host, in thousandths of a CPU and bytes; infinite if unknown."""
        if (self._host_cpu[row], self._host_bytes[row]) != (cpu_milli, host_bytes):
            self.tick += 1
            self.changed_at[row] = self.tick
            self._host_cpu[row], self._host_bytes[row] = cpu_milli, host_bytes

    def get_columns(self) -> Columns:
        """Return the columns of all rows. Rows of unknown nodes have no cards. Callers must not change the columns."""
        columns = Columns(self._free, self._size, self._untouched, self._host_cpu, self._host_bytes)
        return columns.take(slice(0, self.rows))

    def find_changed_rows(self, tick: int) -> npt.NDArray[np.int64]:
        """Return the rows that changed after `tick`."""
        return np.nonzero(self.changed_at[: self.rows] > tick)[0]

    def judge(self, request: PodRequest, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        """Return FITS, FULL, NEVER or PROBLEM for each of these rows. The request must be simple."""
        container = request.containers[0]
        if container.whole:
            fits, possible = self._empty[rows] >= container.cards, self._usable[rows] >= container.cards
        elif container.cards > self._free.shape[1]:
            fits = possible = np.zeros(len(rows), dtype=np.bool_)
        else:
            nth, amount = container.cards - 1, container.memory_bytes
            # A card without memory to share does not fit any container, even if the container does not request memory.
            fits, possible = self._free[rows, nth] >= amount, self._capacity[rows, nth] >= max(1, amount)
        codes = np.where(fits, FITS, np.where(possible, FULL, NEVER)).astype(np.int8)
        codes[~self._known[rows]] = PROBLEM
        return codes

    def _grow(self, rows: int, columns: int) -> None:
        self.changed_at = _resized(self.changed_at, (rows,), 0)
        self.used_fraction = _resized(self.used_fraction, (rows,), 0.0)
        self._known = _resized(self._known, (rows,), fill=False)
        self._free = _resized(self._free, (rows, columns), _NONE)
        self._capacity = _resized(self._capacity, (rows, columns), _NONE)
        self._size = _resized(self._size, (rows, columns), 0)
        self._untouched = _resized(self._untouched, (rows, columns), fill=False)
        self._host_cpu = _resized(self._host_cpu, (rows,), np.inf)
        self._host_bytes = _resized(self._host_bytes, (rows,), np.inf)
        self._empty = _resized(self._empty, (rows,), 0)
        self._usable = _resized(self._usable, (rows,), 0)


def _get_column_free(state: CardState) -> int:
    return max(_NONE, state.room_bytes) if state.card.capacity_bytes else _NONE


def _fill(values: list[int], length: int, fill: int) -> list[int]:
    return values + [fill] * (length - len(values))


def _resized(array: npt.NDArray[_Scalar], shape: tuple[int, ...], fill: float) -> npt.NDArray[_Scalar]:
    larger = np.full(shape, fill, dtype=array.dtype)
    larger[tuple(slice(0, length) for length in array.shape)] = array
    return larger
