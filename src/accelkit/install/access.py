"""Check of permissions before an installation, which finds required permissions that the current user lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

import msgspec

from accelkit.errors import raise_first
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_collection_path
from accelkit.kube.views.api import AccessReview

_REVIEWS: Final = build_collection_path("authorization.k8s.io/v1", "selfsubjectaccessreviews")
# Resources whose permissions are reviewed without a namespace.
_CLUSTER_SCOPED: Final = frozenset(
    {
        "clusterrolebindings",
        "clusterroles",
        "customresourcedefinitions",
        "namespaces",
        "nodes",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    }
)


class AccessRule(msgspec.Struct, frozen=True, rename="camel"):
    """A rule of a Role or ClusterRole, without resource names."""

    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


class ResourceAttributes(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """A permission, with the fields of a SelfSubjectAccessReview."""

    group: str
    resource: str
    subresource: str
    verb: str
    namespace: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        whole = f"{kind}/{self.subresource}" if self.subresource else kind
        return f"{self.verb} {whole} in {self.namespace}" if self.namespace else f"{self.verb} {whole}"


async def find_denied(
    api: ApiClient, rules: Sequence[AccessRule], namespaces: Sequence[str]
) -> list[ResourceAttributes]:
    """Return the permissions in the rules that the user of the client lacks.

    Args:
        api: an open client.
        rules: the required permissions. The verb `list` is required in all namespaces.
        namespaces: the namespaces in which other permissions for namespaced objects are required.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    required = sorted({right for rule in rules for right in _expand(rule, namespaces)})
    with raise_first(Exception):
        async with asyncio.TaskGroup() as group:
            reviews = [group.create_task(_review(api, right)) for right in required]
    return [right for right, review in zip(required, reviews, strict=True) if not review.result()]


def _expand(rule: AccessRule, namespaces: Sequence[str]) -> Iterator[ResourceAttributes]:
    for group, name, verb in product(rule.api_groups, rule.resources, rule.verbs):
        resource, _, subresource = name.partition("/")
        for namespace in ("",) if verb == "list" or resource in _CLUSTER_SCOPED else namespaces:
            yield ResourceAttributes(group, resource, subresource, verb, namespace)


async def _review(api: ApiClient, right: ResourceAttributes) -> bool:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": right},
    }
    return msgspec.json.decode(await api.post(_REVIEWS, body), type=AccessReview).status.allowed
