"""Takes over an installation of Enflame GCUShare: uninstalls its Helm releases and shares its nodes.

Its entry in kube-scheduler's configuration is the business of `accelkit.scheduler.switch.gcushare`. Running pods are
left alone; the kubelets keep their devices until they end.
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
    """What was, or in check mode would be, taken over.

    Attributes:
        releases: as `namespace/name`, sorted.
        nodes: those that GCUShare shared, sorted.
        former_unit: the unit of memory in which its pods were given theirs, by its name; empty where it was not found.
    """

    releases: Sequence[str]
    nodes: Sequence[str]
    former_unit: str = ""


async def adopt_gcushare(api: ApiClient, *, check: bool = False) -> Adoption:
    """Uninstall GCUShare's releases and turn its node label into ours.

    The label goes last: as long as it is there, a second try finds what the first one left. The unit of its pods is
    written on the nodes first: once the releases are gone nothing else says it.

    Raises:
        ConfigurationError: a release cannot be read, or it is not clear which unit its pods have.
        ApiError: the API server refused or did not answer.
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
    """Return the unit of the releases of GCUShare's device plugin, empty where there is none.

    Raises:
        ConfigurationError: it is no unit, or several have different ones.
    """
    found: dict[str, str] = {}
    for release in releases:
        if _UNIT_VALUE in release.values or _PLUGIN in release.chart:
            value = str(release.values.get(_UNIT_VALUE) or _DEFAULT_UNIT)
            try:
                found[f"{release.namespace}/{release.name}"] = format_unit(parse_unit(value))
            except QuantityError as exc:
                raise ConfigurationError(
                    f"{_UNIT_VALUE} of the Helm release {release.namespace}/{release.name}: {exc.message}",
                    next_step="set it to what its pods were given memory in, with helm upgrade",
                ) from exc
    if len(set(found.values())) > 1:
        said = ", ".join(f"{name} has {unit}" for name, unit in sorted(found.items()))
        raise ConfigurationError(
            f"the Helm releases of GCUShare have different units of memory: {said}",
            next_step="uninstall the ones that no node uses",
        )
    return next(iter(found.values()), "")


def _find_recorded_unit(nodes: Sequence[Node]) -> str:
    """Return the unit that a former run wrote on the nodes; a word that is none, or several, say nothing."""
    recorded = {node.find_annotation(FORMER_UNIT_ANNOTATION) for node in nodes}
    units = [name for name in UNITS if name in recorded]
    return units[0] if len(units) == 1 else ""
