"""Adoption of an Enflame GCUShare installation: uninstall its Helm releases, and share its nodes with accelkit.

`accelkit.scheduler.switch.gcushare` removes GCUShare from the configuration of kube-scheduler. Running pods do not
change. Their devices remain allocated until the pods terminate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from accelkit.errors import ConfigurationError, QuantityError
from accelkit.install.helm import Release, list_releases, uninstall
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES, build_node_path
from accelkit.model.keys import FORMER_UNIT_ANNOTATION, SHARE_LABEL
from accelkit.model.pod import Node
from accelkit.model.units import UNITS, format_unit, parse_unit
from accelkit.vendors.dialects import load_own_dialect

CHART_PREFIX: Final = "gcushare"
NODE_LABEL: Final = load_own_dialect("gcushare").node_label
_PLUGIN: Final = "device-plugin"
_UNIT_VALUE: Final = "memoryUnit"
_DEFAULT_UNIT: Final = "1"


@dataclass(frozen=True)
class Adoption:
    """The result of an adoption. In check mode, it contains the releases and nodes that would be adopted.

    Attributes:
        releases: the releases as `namespace/name`, sorted.
        nodes: the nodes that GCUShare shared, sorted.
        former_unit: the name of the memory unit that GCUShare's pods use; empty if it was not found.
    """

    releases: Sequence[str]
    nodes: Sequence[str]
    former_unit: str = ""


async def adopt_gcushare(api: ApiClient, *, check: bool = False) -> Adoption:
    """Uninstall the releases of GCUShare, and replace its node label with accelkit's label.

    First, the unit of the pods is written to the nodes, because only the releases contain it. The labels are replaced
    last, so that an interrupted adoption can be repeated for the remaining nodes.

    Raises:
        ConfigurationError: a release cannot be read, or the unit of its pods is ambiguous.
        ApiError: the API server rejected the request or did not respond.
    """
    releases = await list_releases(api, CHART_PREFIX)
    listed, _ = await list_all(api, NODES, Node)
    labels = {node.metadata.name: node.metadata.labels or {} for node in listed}
    nodes = sorted(name for name, of_node in labels.items() if NODE_LABEL in of_node)
    unit = _read_unit(releases) or _find_recorded_unit(listed)
    if not check:
        for name in nodes:
            if unit and labels[name][NODE_LABEL] == "true":
                await api.patch(build_node_path(name), {"metadata": {"annotations": {FORMER_UNIT_ANNOTATION: unit}}})
        for release in releases:
            await uninstall(api, release)
        for name in nodes:
            shared = {SHARE_LABEL: "true"} if labels[name][NODE_LABEL] == "true" else {}
            await api.patch(build_node_path(name), {"metadata": {"labels": {NODE_LABEL: None, **shared}}})
    return Adoption([f"{release.namespace}/{release.name}" for release in releases], nodes, unit)


def _read_unit(releases: Sequence[Release]) -> str:
    """Return the unit in the releases of GCUShare's device plugin; empty if there are no such releases.

    Raises:
        ConfigurationError: the unit is invalid, or several releases have different units.
    """
    found: dict[str, str] = {}
    for release in releases:
        if _UNIT_VALUE in release.values or _PLUGIN in release.chart:
            value = str(release.values.get(_UNIT_VALUE) or _DEFAULT_UNIT)
            try:
                found[f"{release.namespace}/{release.name}"] = format_unit(parse_unit(value))
            except QuantityError as exc:
                raise ConfigurationError(
                    f"cannot read {_UNIT_VALUE} of the Helm release {release.namespace}/{release.name}: {exc.message}",
                    next_step="use helm upgrade to set it to the unit in which its pods got memory",
                ) from exc
    if len(set(found.values())) > 1:
        units = ", ".join(f"{name} has {unit}" for name, unit in sorted(found.items()))
        raise ConfigurationError(
            f"cannot adopt GCUShare: its Helm releases have different units of memory: {units}",
            next_step="uninstall the releases that no node uses",
        )
    return next(iter(found.values()), "")


def _find_recorded_unit(nodes: Sequence[Node]) -> str:
    """Return the unit that a previous run wrote to the nodes; empty if it is missing, invalid or ambiguous."""
    recorded = {node.find_annotation(FORMER_UNIT_ANNOTATION) for node in nodes}
    units = [name for name in UNITS if name in recorded]
    return units[0] if len(units) == 1 else ""
