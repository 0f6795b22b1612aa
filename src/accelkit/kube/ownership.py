"""Search for the namespaces of an accelkit installation, based on objects that only administrators can write.

Labels alone are not sufficient, because users with write access to a namespace can set accelkit's labels on objects in
it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import build_collection_path
from accelkit.model.keys import COMPONENT_LABEL, MANAGED_BY_LABEL, PART_OF_LABELS
from accelkit.model.object_meta import ObjectMeta

OWNER_LABELS: Final = {**PART_OF_LABELS, MANAGED_BY_LABEL: "ansible"}
_BINDINGS: Final = build_collection_path("rbac.authorization.k8s.io/v1", "clusterrolebindings")
_SYSTEM: Final = "kube-system"


class _Subject(msgspec.Struct):
    namespace: str = ""


class _Binding(msgspec.Struct):
    metadata: ObjectMeta
    subjects: list[_Subject] | None = None


def build_selector(component: str = "") -> str:
    """Return the label selector for the accelkit objects of one component or, by default, of all components."""
    labels = OWNER_LABELS | ({COMPONENT_LABEL: component} if component else {})
    return ",".join(f"{key}={value}" for key, value in labels.items())


async def find_namespaces(api: ApiClient, known: Collection[str] = ()) -> frozenset[str]:
    """Return the namespaces in which accelkit's labels are trusted.

    The result consists of kube-system, the `known` namespaces, and the namespaces of the ServiceAccounts in accelkit's
    ClusterRoleBindings.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    bindings, _ = await list_all(api, _BINDINGS, _Binding, query={"labelSelector": build_selector()})
    found = {subject.namespace for each in bindings for subject in each.subjects or ()}
    return frozenset({_SYSTEM, *known, *found} - {""})
