"""The fields an example may use of each kind, strictly: another field, or one in a wrong place, is an error."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
LabelValue = Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)]
Labels = dict[str, LabelValue]


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    pass


class Plain(Strict):
    name: Name


class Namespaced(Strict):
    name: Name
    namespace: Name
    labels: Labels = {}


class Labelled(Strict):
    name: Name
    labels: Labels


class Only(Strict):
    labels: Labels


class Security(Strict):
    run_as_user: int
    run_as_non_root: bool | None = None
    allow_privilege_escalation: bool | None = None


class PodSecurity(Strict):
    fs_group: int


class Mount(Strict):
    name: Name
    mount_path: str
    read_only: bool | None = None


class Container(Strict):
    name: Name
    image: str
    command: list[str]
    security_context: Security
    volume_mounts: list[Mount]
    image_pull_policy: Literal["IfNotPresent"] | None = None


class Claim(Strict):
    claim_name: Name


class Volume(Strict):
    name: Name
    persistent_volume_claim: Claim


class Expression(Strict):
    key: str
    operator: str


class Term(Strict):
    match_expressions: list[Expression]


class Terms(Strict):
    node_selector_terms: list[Term]


class NodeAffinity(Strict):
    required_during_scheduling_ignored_during_execution: Terms


class Affinity(Strict):
    node_affinity: NodeAffinity


class Toleration(Strict):
    key: str
    operator: Literal["Exists", "Equal"]
    effect: Literal["NoSchedule"]
    value: str | None = None


class PodSpec(Strict):
    security_context: PodSecurity
    containers: list[Container]
    volumes: list[Volume]
    init_containers: list[Container] = []
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    node_selector: Labels = {}


class Placement(Strict):
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []


class PodTemplate(Strict):
    spec: Placement


class CacheSpec(Strict):
    image: str
    access_modes: list[Literal["ReadWriteOnce", "ReadOnlyMany"]]
    workload_namespaces: list[Name] | msgspec.UnsetType = msgspec.UNSET
    pod_template: PodTemplate | None = None


class Selector(Strict):
    match_labels: Labels


class Template(Strict):
    metadata: Only
    spec: PodSpec


class DaemonSetSpec(Strict):
    selector: Selector
    template: Template


class Tagged(Strict, tag_field="kind"):
    pass


class Namespace(Tagged):
    api_version: Literal["v1"]
    metadata: Plain


class Pod(Tagged):
    api_version: Literal["v1"]
    metadata: Namespaced
    spec: PodSpec


class DaemonSet(Tagged):
    api_version: Literal["apps/v1"]
    metadata: Namespaced
    spec: DaemonSetSpec


class GKMCache(Tagged):
    api_version: Literal["gkm.io/v1alpha1"]
    metadata: Namespaced
    spec: CacheSpec


class ClusterGKMCache(Tagged):
    api_version: Literal["gkm.io/v1alpha1"]
    metadata: Labelled
    spec: CacheSpec


AnyObject = Namespace | Pod | DaemonSet | GKMCache | ClusterGKMCache


def checked(objects: list[dict[str, Any]]) -> list[AnyObject]:
    """Return the objects as types, or raise where one is not as its kind wants it."""
    return msgspec.convert(objects, list[AnyObject])
