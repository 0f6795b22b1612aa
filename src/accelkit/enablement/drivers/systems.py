"""The operating system of a node, in the short form that image tags use, such as `rhel9.4` or `ubuntu22.04`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

_ID: Final = "feature.node.kubernetes.io/system-os_release.ID"
_VERSION: Final = "feature.node.kubernetes.io/system-os_release.VERSION_ID"
# The os-release ID for each prefix of `PRETTY_NAME`, which kubelets report. Longer prefixes are first.
_NAMES: Final = (
    ("red hat enterprise linux coreos", "rhcos"),
    ("red hat enterprise linux", "rhel"),
    ("suse linux enterprise server", "sles"),
    ("debian gnu/linux", "debian"),
    ("flatcar container linux", "flatcar"),
    ("amazon linux", "amzn"),
    ("oracle linux server", "ol"),
    ("rocky linux", "rocky"),
)
# For example, RHEL CoreOS 4.16 reports 416.94.202405.
_PACKED: Final = re.compile(r"^(4)(\d\d)\b")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_SERVICE_PACK: Final = re.compile(r"\bSP(\d+)\b")


# The maximum length of the ID and of the version. A kubelet may report any text, and the ID and the version become part
# of objects.
_MOST: Final = 32


class System(msgspec.Struct, frozen=True):
    """An operating system, without its patch level; both fields are empty if it is unknown."""

    id: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.id}{self.version}"


def read_system(image: str, labels: Mapping[str, str]) -> System:
    """Return the operating system of a node.

    Args:
        image: `status.nodeInfo.osImage`, which is os-release's PRETTY_NAME.
        labels: the labels of the node; labels from Node Feature Discovery take precedence.
    """
    if labels.get(_ID):
        return System(labels[_ID].lower()[:_MOST], labels.get(_VERSION, "")[:_MOST])
    lower = image.lower()
    number = _NUMBER.search(image)
    words = lower[: number.start()] if number else lower
    found = next((short for name, short in _NAMES if lower.startswith(name)), re.sub(r"[^a-z]+", "", words))
    return System(found[:_MOST], _read_version(image, number)[:_MOST])


def _read_version(image: str, number: re.Match[str] | None) -> str:
    if number is None:
        return ""
    rest = image[number.start() :]
    if packed := _PACKED.match(rest):
        return f"{packed[1]}.{int(packed[2])}"
    if pack := _SERVICE_PACK.search(rest):
        return f"{number[0]}.{pack[1]}"
    return number[0]
