"""The command `accelkit hardware-check`."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.table import Table

from accelkit.errors import ConfigurationError
from accelkit.model.units import format_bytes
from accelkit.node.discovery import survey
from accelkit.node.discovery.nvml import load_nvml
from accelkit.node.enforcement.mps import MPS_PIPE_DIRECTORY, MpsFolders
from accelkit.node.hardware_check.report import HardwareReport, check_hardware
from accelkit.node.host_root import host_root_option
from accelkit.output import output_option, print_value
from accelkit.vendors.profiles import load_usable_profiles


@click.command("hardware-check", short_help="Check the cards, drivers and libraries of this machine.")
@host_root_option
@click.option(
    "--mps-folder",
    default=MPS_PIPE_DIRECTORY,
    show_default=True,
    help="Folder of the pipes of NVIDIA's MPS control daemon.",
)
@output_option
def hardware_check(host_root: Path, mps_folder: str, output: str) -> None:
    """Check the cards, libraries, health, processes and limits that the node agent would find on this machine.

    The command uses the code of the agent. It does not change the machine and does not require a cluster.
    """
    if not host_root.is_dir():
        raise ConfigurationError(f"the host's root {host_root} is not a folder", next_step="set ACCELKIT_HOST_ROOT")
    found = survey(host_root, load_usable_profiles().profiles.values()).cards
    report = check_hardware(host_root, found, load_nvml(host_root), mps=MpsFolders(mps_folder, f"{mps_folder}/shm"))
    print_value(report, output, lambda: _build_tables(report))


def _build_tables(report: HardwareReport) -> RenderableType:
    cards = Table("CARD", "MODEL", "MEMORY", "FROM", "HEALTH", "PROCESSES", "LIMITS", box=None, pad_edge=False)
    for each in report.cards:
        card = each.card
        memory = "unknown" if card.memory_bytes is None else format_bytes(card.memory_bytes)
        held = f"{len(each.processes)}, {format_bytes(sum(process.memory_bytes or 0 for process in each.processes))}"
        limits = ", ".join(filter(None, (card.enforcement, "nvml" if each.memory_limits == "" else ""))) or "none"
        cards.add_row(card.id, card.model, memory, card.memory_source or "-", card.health, held, limits)
    missing = Table("MISSING", "NEXT STEP", box=None, pad_edge=False)
    for gap in report.missing:
        missing.add_row(gap.what, gap.next_step)
    return Group(f"NVIDIA's driver: {report.nvidia_driver or 'no response'}", "", cards, "", missing)
