"""Groups of pods on nodes of their own, and the rights of an extender that cares for them, as the role writes them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from cluster_objects import RBAC, Json
from extender_process import PODS, Client, World
from impersonation import is_done
from jinja2 import ChainableUndefined, Environment, FileSystemLoader
from ruamel.yaml import YAML
from support.waiting import until

from accelkit.kube.client import ApiClient
from accelkit.model.keys import FENCED_AT_ANNOTATION

NAME, ACCOUNT = "groups-scheduler", "groups-extender"
GATE = "accelkit.io/pod-group"
GROUP = "pod-group.scheduling.sigs.k8s.io/name"
SIZE = "pod-group.scheduling.sigs.k8s.io/min-available"
COSCHEDULING = "scheduling.x-k8s.io/pod-group"
POD_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
# Kubernetes' own, from 1.37 on, with the feature gate GenericWorkload.
OWN_POD_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TEMPLATES = Path(__file__).parents[2] / "roles" / "extender" / "templates"
_ANYTHING = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
# The coscheduling plug-in's PodGroups, as far as a name and a number go.
_DEFINITION: Json = {
    "metadata": {
        "name": "podgroups.scheduling.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test's own"},
    },
    "spec": {
        "group": "scheduling.x-k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "podgroups", "kind": "PodGroup"},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": _ANYTHING}],
    },
}
_PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


def render(template: str) -> Iterator[dict[str, Any]]:
    """The objects of a template of the role extender with pod groups on, and little else."""
    environment = Environment(  # noqa: S701 - renders YAML, where HTML escapes would be wrong
        loader=FileSystemLoader(_TEMPLATES), undefined=ChainableUndefined, trim_blocks=True
    )
    environment.filters["to_json"] = lambda value: json.dumps(value, default=str)
    environment.filters["bool"] = bool
    environment.filters["accelkit.kubernetes.dialect"] = lambda _name: {}
    names = {"extender_name": ACCOUNT, "extender_namespace": "default", "extender_labels": {}}
    on = {
        "__extender_pod_groups": True,
        "__extender_gate": GATE,
        "__extender_labels": {},
        "extender_dialects": [],
        "extender_former_dialects": [],
    }
    fences = {"__extender_fence": True, "__extender_fence_annotation": FENCED_AT_ANNOTATION}
    text = environment.get_template(template).render(**names, **on, **fences)
    return (each for each in YAML(typ="safe", pure=True).load_all(text) if each)


def read_role() -> dict[str, Any]:
    """The ClusterRole of the extender."""
    return next(each for each in render("objects.yaml.j2") if each["kind"] == "ClusterRole")


async def prepare(api: ApiClient) -> None:
    """Serve PodGroups, and bound what the extender may patch of pods."""
    await api.post(_DEFINITIONS, _DEFINITION)
    for each in render("policies.yaml.j2"):
        await api.post(f"{ADMISSION}/{_PLURALS[each['kind']]}", each)

    await until(lambda: is_done(api.get(POD_GROUPS)))


async def tidy_up(api: ApiClient) -> None:
    """Delete what was prepared, and the account with its rights."""
    for kind in reversed(_PLURALS.values()):
        await api.delete(f"{ADMISSION}/{kind}/{ACCOUNT}-gates")
    await api.delete(f"{_DEFINITIONS}/{_DEFINITION['metadata']['name']}")
    for kind in ("clusterrolebindings", "clusterroles"):
        await api.delete(f"{RBAC}/{kind}/test-{ACCOUNT}")
    await api.delete(f"/api/v1/namespaces/default/serviceaccounts/{ACCOUNT}")


class Site:
    """Nodes of one test, and groups of pods that are for them alone."""

    def __init__(self, world: World, extender: Client) -> None:
        self.world, self.extender = world, extender
        self.nodes: list[str] = []
        self._names = itertools.count()

    def name(self) -> str:
        return f"{self.world.prefix}-g{next(self._names)}"

    async def add_nodes(self, count: int, cards: int = 1, memory: int = 16) -> None:
        allocatable = {"cpu": "64", "memory": "64Gi", "pods": "100"}
        for _ in range(count):
            node = await self.world.node(cards, memory, allocatable=allocatable)
            await self.extender.shows(node, lambda view: view["state"] == "shared")
            self.nodes.append(node)

    async def pod(
        self,
        group: str,
        memory: int,
        *,
        size: int | None = None,
        gated: bool = True,
        label: str = GROUP,
        scheduler: str = NAME,
        own: bool = False,
    ) -> Json:
        """Create a pod; `own` says whether spec.schedulingGroup names its group, and no label."""
        labels = ({} if own else {label: group}) | ({} if size is None else {SIZE: str(size)})
        among = {"matchExpressions": [{"key": "accelkit-test", "operator": "In", "values": self.nodes}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [among]}}
        spec = {
            "schedulerName": scheduler,
            "affinity": {"nodeAffinity": required},
            "tolerations": [{"operator": "Exists"}],
            **({"schedulingGates": [{"name": GATE}]} if gated else {}),
            **({"schedulingGroup": {"podGroupName": group}} if own else {}),
        }
        return await self.world.pod(memory, spec=spec, labels=labels)

    async def pods(self, group: str, count: int, memory: int, **options: Any) -> list[Json]:
        return [await self.pod(group, memory, **options) for _ in range(count)]

    async def placed(self, pods: list[Json]) -> list[str | None]:
        return [(await self.world.read(pod))["spec"].get("nodeName") for pod in pods]

    async def bound(self, pods: list[Json]) -> None:
        """Wait until all are bound."""

        async def all_bound() -> bool:
            return all(await self.placed(pods))

        try:
            await until(all_bound)
        except AssertionError as exc:
            raise AssertionError(self.extender.process.log.read_text()[-6000:]) from exc

    async def told(self, pods: list[Json], reason: str, text: str) -> list[str]:
        """Wait for an Event of one of these pods."""
        names = {pod["metadata"]["name"] for pod in pods}

        async def found() -> list[str]:
            events = msgspec.json.decode(await self.world.api.get("/api/v1/namespaces/default/events"))["items"]
            about = (each for each in events if each["involvedObject"]["name"] in names and each["reason"] == reason)
            return [each["message"] for each in about if text in each["message"]]

        try:
            return list(await until(found))
        except AssertionError as exc:
            raise AssertionError(self.extender.process.log.read_text()[-6000:]) from exc

    async def used(self) -> int:
        return sum([await self.extender.used(node) for node in self.nodes])

    async def holds(self, amount: int) -> None:
        """Wait until so many GiB are held on the nodes."""
        await until(self.used, accept=lambda found: found == amount)

    async def relabel(self, pod: Json, key: str, value: str) -> None:
        await self.world.api.patch(f"{PODS}/{pod['metadata']['name']}", {"metadata": {"labels": {key: value}}})
