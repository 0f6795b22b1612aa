"""Controls the stand-in library: its cards, processes, failures and errors, and what it noted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

STATE_VARIABLE: Final = "ACCELKIT_STANDIN_NVML"
# What the library calls no limit at all.
NO_LIMIT: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class StandinCard:
    """A card as the library tells of it, amounts in bytes; `links` are addresses of other cards, or `switch`."""

    bdf: str
    uuid: str
    minor: int = 0
    name: str = "NVIDIA H200"
    total: int = 141 * 2**30
    reserved: int = 2**30
    used: int = 0
    mig: bool = False
    links: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Memory limits of one cgroup on one card, in bytes."""

    soft: int
    hard: int


@dataclass
class StandinNvml:
    """The state that a stand-in library reads at each call; change it, and `write`.

    Attributes:
        path: the state's file; limits, XIDs and notes lie beside it.
        control: the driver's control node, any file that opens; by default one beside the state, made by `write`.
        processes: card, process id, bytes (None is unknown), and `compute`, `graphics` or `mps`.
        measures: card, what is measured (`busy`, `temperature`, `power`, `energy`, `clock-sm`, `clock-memory`,
            `ecc-corrected`, `ecc-uncorrected`), and the number in NVML's own unit.
        failures: NVML's error number by function.
        delays: milliseconds by function.
    """

    path: Path
    cards: list[StandinCard] = field(default_factory=list)
    processes: list[tuple[str, int, int | None, str]] = field(default_factory=list)
    measures: list[tuple[str, str, int]] = field(default_factory=list)
    driver: str = "615.71.09"
    failures: dict[str, int] = field(default_factory=dict)
    delays: dict[str, int] = field(default_factory=dict)
    control: Path | None = None

    def write(self) -> None:
        """Make the state what it is here, at once."""
        control = self.control
        if control is None:
            control = self._beside(".control")
            control.touch()
        lines = [f"driver {self.driver}", f"control {control}"]
        lines += [_format_card(card) for card in self.cards]
        lines += [
            f"process {bdf} {pid} {'-' if amount is None else amount} {kind}"
            for bdf, pid, amount, kind in self.processes
        ]
        lines += [f"measure {bdf} {name} {number}" for bdf, name, number in self.measures]
        lines += [f"fail {function} {number}" for function, number in self.failures.items()]
        lines += [f"delay {function} {milliseconds}" for function, milliseconds in self.delays.items()]
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_text("".join(f"{line}\n" for line in lines))
        new.replace(self.path)

    def raise_xid(self, bdf: str, xid: int) -> None:
        """Have the driver report an error of a card to whoever listens by then."""
        with self._beside(".xids").open("a") as file:
            file.write(f"{bdf} {xid}\n")

    def read_limits(self) -> dict[tuple[str, Path], Limits]:
        """Return the limits that were set, by card and cgroup, those of cgroups that are gone included."""
        rows = (line.split(" ", 3) for line in _read_lines(self._beside(".limits")))
        return {(bdf, Path(cgroup)): Limits(int(soft), int(hard)) for bdf, soft, hard, cgroup in rows}

    def read_notes(self) -> list[str]:
        """Return what was wrong: limits for what is no cgroup, and cgroups that ended with a soft limit."""
        return _read_lines(self._beside(".notes"))

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)


def _format_card(card: StandinCard) -> str:
    links = f" links={','.join(card.links)}" if card.links else ""
    return (
        f"card {card.bdf} uuid={card.uuid} minor={card.minor} mig={card.mig:d} total={card.total} "
        f"reserved={card.reserved} used={card.used}{links} name={card.name}"
    )


def _read_lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
