"""Takes over an installation of Enflame GCUShare: uninstalls its Helm releases and shares its nodes.

Its entry in kube-scheduler's configuration is the business of `accelkit.scheduler.switch.gcushare`. Running pods are
left alone; the kubelets keep their devices until they end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from accelkit.install.helm import list_releases, uninstall
from accelkit.install.owned_metadata import SHARE_LABEL
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import NODES, build_node_path
from accelkit.kube.reflector import list_all
from accelkit.model.pod import Node
from accelkit.vendors.dialects import load_dialect

CHART_PREFIX: Final = "gcushare"
NODE_LABEL: Final = load_dialect("gcushare").node_label


@dataclass(frozen=True)
class Adoption:
    """What was, or in check mode would be, taken over.

    Attributes:
        releases: as `namespace/name`, sorted.
        nodes: those that GCUShare shared, sorted.
    """

    releases: Sequence[str]
    nodes: Sequence[str]


async def adopt_gcushare(api: ApiClient, *, check: bool = False) -> Adoption:
    """Uninstall GCUShare's releases and turn its node label into ours.

    The label goes last: as long as it is there, a second try finds what the first one left.

    Raises:
        ConfigurationError: a release cannot be read.
        ApiError: the API server refused or did not answer.
    """
    releases = await list_releases(api, CHART_PREFIX)
    listed, _ = await list_all(api, NODES, Node)
    labels = {node.metadata.name: node.metadata.labels or {} for node in listed}
    nodes = sorted(name for name, of_node in labels.items() if NODE_LABEL in of_node)
    if not check:
        for release in releases:
            await uninstall(api, release)
        for name in nodes:
            shared = {SHARE_LABEL: "true"} if labels[name][NODE_LABEL] == "true" else {}
            await api.patch(build_node_path(name), {"metadata": {"labels": {NODE_LABEL: None, **shared}}})
    return Adoption([f"{release.namespace}/{release.name}" for release in releases], nodes)
