"""Reads the host's devices, processor, kernel and system as labels in NFD's names.

Names and formats: Node Feature Discovery, `source/{pci,cpu,kernel,system}`. A source that cannot be read is None, which
is not the same as a host that has nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from accelkit.node.discovery import sysfs

FEATURE: Final = "feature.node.kubernetes.io/"

# How all names begin that are built here.
FEATURES: Final = tuple(
    f"{FEATURE}{source}" for source in ("cpu-cpuid.", "kernel-version.", "pci-", "system-os_release.")
)

# Network controllers, displays, co-processors (FPGAs among them) and accelerators: the first digits of the class.
_CLASSES = ("02", "03", "0b40", "12")
_HEX4 = re.compile(r"[0-9a-f]{4}")
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9._-]+")
# The kernel's names of flags where NFD has other ones.
_FLAG_NAMES = {"aes": "AESNI", "sha_ni": "SHA", "svm": "SVM"}
# Flags that users select nodes by; the kernel names hundreds.
_FLAGS = re.compile(
    r"(?:aes|adx|avx\w*|amx_\w+|fma|fma4|sha_ni|vaes|vpclmulqdq|gfni|vmx|svm|xop|movdiri|movdir64b|serialize|wbnoinvd"
    r"|enqcmd|hypervisor|asimd\w*|sve\w*|sme\w*|bf16|i8mm|crc32|sha[123]|pmull)"
)


def to_label_value(text: str) -> str | None:
    """Return a text as a label's value: up to 63 of its characters, with dashes for what labels do not take.

    None where it has no character that labels take.
    """
    return _NOT_IN_LABELS.sub("-", text.strip())[:63].strip("-._") or None


def read_pci_labels(root: Path) -> dict[str, str] | None:
    """Return `pci-<class>_<vendor>.present` and `pci-<vendor>.present` of network, display and accelerator devices."""
    folder = root / "sys/bus/pci/devices"
    try:
        devices = sorted(folder.iterdir())
    except OSError:
        return None
    labels: dict[str, str] = {}
    for device in devices:
        class_id, vendor = _read_hex(device / "class")[:4], _read_hex(device / "vendor")
        if not class_id.startswith(_CLASSES) or not _HEX4.fullmatch(vendor):
            continue
        for name in (f"pci-{class_id}_{vendor}", f"pci-{vendor}"):
            labels[f"{FEATURE}{name}.present"] = "true"
            if sysfs.read_integer(device / "sriov_totalvfs"):
                labels[f"{FEATURE}{name}.sriov.capable"] = "true"
    return labels


def read_cpu_labels(root: Path) -> dict[str, str] | None:
    """Return `cpu-cpuid.<FLAG>` of the flags by which people select nodes."""
    try:
        text = (root / "proc/cpuinfo").read_text()
    except OSError:
        return None
    found = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    if found is None:
        return None
    flags = [flag for flag in found[1].split() if _FLAGS.fullmatch(flag)]
    return {f"{FEATURE}cpu-cpuid.{_FLAG_NAMES.get(flag, flag.replace('_', '').upper())}": "true" for flag in flags}


def read_kernel_labels(root: Path) -> dict[str, str] | None:
    """Return `kernel-version.full`, `.major`, `.minor` and `.revision`."""
    try:
        full = (root / "proc/sys/kernel/osrelease").read_text().strip()
    except OSError:
        return None
    value = to_label_value(full)
    labels = {} if value is None else {f"{FEATURE}kernel-version.full": value}
    if (found := _VERSION.match(full)) is not None:
        parts = zip(("major", "minor", "revision"), found.groups(), strict=True)
        labels |= {f"{FEATURE}kernel-version.{name}": part for name, part in parts if part is not None}
    return labels


def read_system_labels(root: Path) -> dict[str, str] | None:
    """Return `system-os_release.ID`, `.VERSION_ID` and the parts of the latter."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        try:
            text = (root / path).read_text()
        except OSError:
            continue
        lines = (line.partition("=") for line in text.splitlines())
        release = {key.strip(): value.strip().strip("\"'") for key, _, value in lines}
        labels = _label_release("ID", release) | _label_release("VERSION_ID", release)
        if (found := _VERSION.match(f"{release.get('VERSION_ID', '')}.0")) is not None:
            labels |= {f"{FEATURE}system-os_release.VERSION_ID.major": found[1]}
            if "." in release["VERSION_ID"]:
                labels |= {f"{FEATURE}system-os_release.VERSION_ID.minor": found[2]}
        return labels
    return None


def _label_release(key: str, release: Mapping[str, str]) -> dict[str, str]:
    value = to_label_value(release.get(key, ""))
    return {f"{FEATURE}system-os_release.{key}": value} if value else {}


def _read_hex(path: Path) -> str:
    # One device that has just gone says nothing of the others.
    return (sysfs.read_text(path) or "").removeprefix("0x").lower()
