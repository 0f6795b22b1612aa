"""Reader of traces in openb's format (Alibaba's cluster-trace-gpu-v2023): a CSV of nodes and a CSV of tasks."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from accelkit.errors import ConfigurationError
from accelkit.model.request import MAX_CARDS
from accelkit.texts import count_cards

# The number of parts into which a card is divided.
WHOLE_MILLI: Final = 1000
_NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_TASK_COLUMNS: Final = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TIME_COLUMNS: Final = ("creation_time", "deletion_time")
_MOST: Final = 2**40


class TraceNode(msgspec.Struct, frozen=True):
    """A node, with the CPU and memory of its host and with its cards. All cards in a node have the same model."""

    name: str
    cpu_milli: int
    memory_mib: int
    cards: int
    model: str


class Task(msgspec.Struct, frozen=True):
    """The request of one task.

    Attributes:
        milli: the requested amount of each card, in thousandths of a card; 1000 for whole cards, 0 without cards.
        models: the card models on which the task can run; empty for all models.
    """

    cpu_milli: int
    memory_mib: int
    cards: int
    milli: int
    models: frozenset[str] = frozenset()

    @property
    def demand_milli(self) -> int:
        """The total request for all cards, in thousandths of a card."""
        return self.cards * self.milli


def read_nodes(path: Path) -> list[TraceNode]:
    """Return the nodes in a file.

    Raises:
        ConfigurationError: the file cannot be read, lacks a column, or has an invalid row.
    """
    nodes = []
    for where, row in _read_rows(path, _NODE_COLUMNS):
        cpu, memory, cards = (_read_number(where, row, key) for key in _NODE_COLUMNS[1:4])
        if cards > MAX_CARDS:
            raise ConfigurationError(f"{where}: a node has {cards} cards; the limit is {MAX_CARDS}")
        nodes.append(TraceNode(row["sn"], cpu, memory, cards, row["model"]))
    if sum(node.cards for node in nodes) == 0:
        raise ConfigurationError(f"{path} has no cards", next_step="set a list of nodes with cards")
    if len({node.name for node in nodes}) < len(nodes):
        raise ConfigurationError(f"{path} contains a node twice")
    return nodes


def read_tasks(path: Path) -> list[Task]:
    """Return the tasks in a file. Without the column gpu_spec, the tasks can run on all models.

    Raises:
        ConfigurationError: the file cannot be read, lacks a column, or has an invalid row.
    """
    tasks = [_read_task(where, row) for where, row in _read_rows(path, _TASK_COLUMNS)]
    if not any(task.cards for task in tasks):
        raise ConfigurationError(f"no task in {path} requests a card", next_step="set a list of tasks with num_gpu")
    return tasks


def read_lifetimes(path: Path) -> list[int]:
    """Return the lifetime of each task in a file, in seconds.

    Raises:
        ConfigurationError: the file cannot be read, lacks a column, contains an invalid time, or does not contain
            tasks.
    """
    lifetimes = []
    for where, row in _read_rows(path, _TIME_COLUMNS, "set --lifetimes to a list with these columns"):
        created, deleted = (_read_number(where, row, key) for key in _TIME_COLUMNS)
        if deleted < created:
            raise ConfigurationError(f"{where}: deletion_time is before creation_time")
        lifetimes.append(deleted - created)
    if not lifetimes:
        raise ConfigurationError(f"{path} has no tasks", next_step="set a list of tasks with their times")
    return lifetimes


def _read_task(where: str, row: dict[str, str]) -> Task:
    cpu, memory, cards, milli = (_read_number(where, row, key) for key in _TASK_COLUMNS)
    if cards > MAX_CARDS or milli > WHOLE_MILLI:
        raise ConfigurationError(f"{where}: {count_cards(cards)} with {milli} thousandths each exceed the limits")
    # A task that requests several cards gets whole cards, even if the trace specifies smaller amounts.
    share = milli if cards == 1 else WHOLE_MILLI * bool(cards)
    if cards and not share:
        raise ConfigurationError(f"{where}: gpu_milli of a task with a card must be from 1 to {WHOLE_MILLI}")
    models = frozenset(filter(None, (row.get("gpu_spec") or "").split("|")))
    return Task(cpu, memory, cards, share, models)


def _read_rows(
    path: Path, columns: tuple[str, ...], next_step: str = "see https://github.com/alibaba/clusterdata for the format"
) -> Iterator[tuple[str, dict[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [each for each in columns if each not in (reader.fieldnames or ())]
            if missing:
                raise ConfigurationError(f"{path} has no column {', '.join(missing)}", next_step=next_step)
            for row in reader:
                where = f"{path}, line {reader.line_num}"
                if any(row.get(each) is None for each in columns):
                    raise ConfigurationError(f"{where} is too short")
                yield where, row
    except (OSError, UnicodeDecodeError, csv.Error) as exc:
        raise ConfigurationError(f"cannot read {path}: {exc}") from exc


def _read_number(where: str, row: dict[str, str], key: str) -> int:
    text = row[key].strip()
    if not text.isascii() or not text.isdigit() or int(text[:20]) > _MOST:
        raise ConfigurationError(f"{where}: {key} must be an integer from 0 to {_MOST}, not {text[:40]!r}")
    return int(text)
