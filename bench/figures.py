"""A benchmark's report: JSON on stdout, and a line on stderr for each figure that falls short of its aim."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A measured figure and its aim, which is an upper bound unless `at_least` says otherwise."""

    figure: float
    aim: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.figure >= self.aim if self.at_least else self.figure <= self.aim

    @property
    def wanted(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.aim:g}"


def report(results: Mapping[str, object]) -> None:
    """Print nested results, in which a figure without an aim is a plain number."""
    json.dump(results, sys.stdout, indent=2, default=_as_json)
    print()
    for name, figure in _figures("", results):
        if not figure.met:
            print(f"falls short: {name} is {figure.figure:g}, the aim is {figure.wanted}", file=sys.stderr)


def _as_json(value: object) -> dict[str, object]:
    if not isinstance(value, Figure):
        raise TypeError(f"{value!r} is no figure")
    return {"figure": value.figure, "aim": value.wanted, "met": value.met}


def _figures(name: str, value: object) -> Iterator[tuple[str, Figure]]:
    if isinstance(value, Figure):
        yield name, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _figures(f"{name}, {key}" if name else str(key), each)
