"""Labels for the host's devices, CPU, kernel and operating system, with the names from Node Feature Discovery (NFD).

The names and formats follow `source/{pci,cpu,kernel,system}` in NFD. If a source is unreadable, the result is None; if
the host does not have the features, the result is empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from accelkit.node.discovery import sysfs

FEATURE: Final = "feature.node.kubernetes.io/"

# The prefixes of all label names that this module builds.
FEATURES: Final = tuple(
    f"{FEATURE}{source}" for source in ("cpu-cpuid.", "kernel-version.", "pci-", "system-os_release.")
)

# The first digits of the PCI classes for network controllers, displays, coprocessors (such as FPGAs) and accelerators.
_CLASSES = ("02", "03", "0b40", "12")
_HEX4 = re.compile(r"[0-9a-f]{4}")
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9._-]+")
# Flags whose names differ between the kernel and NFD.
_FLAG_NAMES = {"aes": "AESNI", "sha_ni": "SHA", "svm": "SVM"}
# Flags that users need to select nodes. The kernel lists hundreds of flags.
_FLAGS = re.compile(
    r"(?:aes|adx|avx\w*|amx_\w+|fma|fma4|sha_ni|vaes|vpclmulqdq|gfni|vmx|svm|xop|movdiri|movdir64b|serialize|wbnoinvd"
    r"|enqcmd|hypervisor|asimd\w*|sve\w*|sme\w*|bf16|i8mm|crc32|sha[123]|pmull)"
)


def to_label_value(text: str) -> str | None:
    """Convert a string to a label value of at most 63 characters. Invalid characters are replaced by dashes.

    Return None if the string does not contain a valid character.
    """
    return _NOT_IN_LABELS.sub("-", text.strip())[:63].strip("-._") or None


def read_pci_labels(root: Path) -> dict[str, str] | None:
    """Return `pci-<class>_<vendor>.present` and `pci-<vendor>.present` for network, display and accelerator devices."""
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
    """Return `cpu-cpuid.<FLAG>` for the CPU flags that users need to select nodes."""
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
    """Return `system-os_release.ID`, `.VERSION_ID`, and labels for the components of the version."""
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
    # Ignore a device that was just removed, so that the other devices are still labeled.
    return (sysfs.read_text(path) or "").removeprefix("0x").lower()
