"""The record of the resources for which every kube-scheduler calls the extender: one ConfigMap in accelkit's namespace.

The installer writes the record after it has configured the schedulers. A node agent offers a resource only while the
record lists the resource, so that no pod is placed before the extender counts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from accelkit.errors import ManagedResourcesError
from accelkit.model.keys import COMPONENT_LABEL, MANAGED_BY_LABEL, NAME_LABEL, PART_OF_LABELS
from accelkit.texts import shorten

MANAGED_RESOURCES_NAME: Final = "accelkit-managed-resources"
MANAGED_RESOURCES_KEY: Final = "managed.json"
MANAGED_RESOURCES_VERSION: Final = 1
MANAGED_RESOURCES_LABELS: Final = {
    NAME_LABEL: "accelkit",
    COMPONENT_LABEL: "managed-resources",
    **PART_OF_LABELS,
    MANAGED_BY_LABEL: "ansible",
}
_MAX_BYTES: Final = 64 * 1024


class ManagedResources(msgspec.Struct, frozen=True):
    """The content of the record.

    Attributes:
        resources: the sorted names of the extended resources.
    """

    resources: tuple[str, ...]
    version: int = MANAGED_RESOURCES_VERSION


_managed = msgspec.json.Decoder(ManagedResources)


def encode_managed_resources(managed: ManagedResources) -> dict[str, str]:
    """Return the record as the data of the ConfigMap."""
    return {MANAGED_RESOURCES_KEY: msgspec.json.encode(managed).decode()}


def decode_managed_resources(data: Mapping[str, str]) -> ManagedResources:
    """Return the record from the data of the ConfigMap.

    Raises:
        ManagedResourcesError: the record is missing, is too long, is malformed, or has a different version.
    """
    text = data.get(MANAGED_RESOURCES_KEY, "")
    if len(text) > _MAX_BYTES:
        raise ManagedResourcesError(f"cannot read the record of managed resources: it has {len(text)} characters")
    try:
        managed = _managed.decode(text)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise ManagedResourcesError(f"cannot read the record of managed resources: {shorten(str(exc))}") from exc
    if managed.version != MANAGED_RESOURCES_VERSION:
        raise ManagedResourcesError(
            f"cannot read the record of managed resources: it has version {managed.version}, but this program supports "
            f"version {MANAGED_RESOURCES_VERSION}",
            next_step="run site.yml with the version of accelkit that runs in the cluster",
        )
    return managed
