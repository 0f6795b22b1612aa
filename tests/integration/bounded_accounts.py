"""Accounts of the roles on an API server, with the rights and the admission policies that the roles give them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster_objects import Json
from jinja2 import ChainableUndefined, Environment, FileSystemLoader
from ruamel.yaml import YAML

from accelkit.install.guarded_keys import list_guarded_keys
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.objects import delete_and_wait, delete_if_present
from accelkit.kube.paths import build_collection_path, build_object_path

_ROLES = Path(__file__).parents[2] / "roles"
_PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}
_DEADLINE = 60.0


def render(role: str, template: str, **variables: Any) -> Iterator[Json]:
    """The objects of a role's template; variables that are not given are empty."""
    environment = Environment(  # noqa: S701 - renders YAML, where HTML escapes would be wrong
        loader=FileSystemLoader(_ROLES / role / "templates"), undefined=ChainableUndefined, trim_blocks=True
    )
    environment.filters["to_json"] = lambda value, **options: json.dumps(value, default=str, **options)
    environment.filters["bool"] = bool
    # Of what is not read here.
    environment.filters["hash"] = environment.filters["dirname"] = lambda *_: ""
    environment.filters["combine"] = lambda one, other: {**one, **(other or {})}
    environment.filters["accelkit.kubernetes.dialect"] = lambda _name: {}
    text = environment.get_template(template).render(**variables)
    return (each for each in YAML(typ="safe", pure=True).load_all(text) if each)


def read_bounds(role: str, *templates: str, **variables: Any) -> list[Json]:
    """The policies, accounts and rights of a role, in the order in which they are applied."""
    found = [each for template in templates for each in render(role, template, **variables)]
    order = list(_PLURALS)
    return sorted((each for each in found if each["kind"] in order), key=lambda each: order.index(each["kind"]))


def _collection(body: Json) -> str:
    return build_collection_path(body["apiVersion"], _PLURALS[body["kind"]], body["metadata"].get("namespace"))


@contextlib.contextmanager
def installed_bounds(kubeconfig: Path, bodies: list[Json]) -> Iterator[None]:
    """Have these objects on the API server for as long as the block."""
    try:
        asyncio.run(_create(kubeconfig, bodies))
        yield
    finally:
        asyncio.run(_delete(kubeconfig, bodies))


async def _create(kubeconfig: Path, bodies: list[Json]) -> None:
    async with ApiClient(load_connection(kubeconfig)) as api:
        for body in bodies:
            await api.post(_collection(body), body)


async def _delete(kubeconfig: Path, bodies: list[Json]) -> None:
    async with ApiClient(load_connection(kubeconfig)) as api:
        for body in reversed(bodies):
            path = build_object_path(_collection(body), body["metadata"]["name"])
            if body["apiVersion"].startswith("admissionregistration"):
                await delete_and_wait(api, path, time.monotonic() + _DEADLINE)
            else:
                await delete_if_present(api, path)


def cache_bounds(namespace: str, name: str, image: str, *, plain_http: tuple[str, ...] = ()) -> list[Json]:
    """Of the cache controller, which may read the pull secret `login` everywhere."""
    metadata = {"name": f"{name}-login"}
    rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["login"], "verbs": ["get"]}
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": metadata["name"]}
    login = [
        {**rbac, "kind": "ClusterRole", "metadata": metadata, "rules": [rule]},
        {**rbac, "kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": reference, "subjects": [subject]},
    ]
    return login + read_bounds(
        "kernel_cache",
        "controller_policies.yaml.j2",
        "objects.yaml.j2",
        __kernel_cache_admission=True,
        __kernel_cache_labels={"app.kubernetes.io/part-of": "accelkit"},
        __kernel_cache_folder="/var/lib/accelkit/kernel-caches",
        __kernel_cache_own_secrets=["accelkit-ca", "accelkit-extender-tls"],
        kernel_cache_namespace=namespace,
        kernel_cache_name=name,
        kernel_cache_image=image,
        kernel_cache_webhook=True,
        kernel_cache_registry_mirrors={},
        kernel_cache_registry_plain_http=plain_http,
    )


def remediation_bounds(namespace: str, name: str, reset_job: str, template: Json | None = None) -> list[Json]:
    """Of remediation, which has Jobs made from this template, as the API server shows it."""
    return read_bounds(
        "remediation",
        "policies.yaml.j2",
        "objects.yaml.j2",
        __remediation_admission=True,
        __remediation_labels={"app.kubernetes.io/part-of": "accelkit"},
        __remediation_job_template=template or {},
        remediation_mode="on",
        remediation_namespace=namespace,
        remediation_name=name,
        remediation_agent_name="accelkit-node-agent",
        remediation_reset_job=reset_job,
        remediation_stages=[],
        remediation_dialects=[],
    )


def extender_bounds(namespace: str, name: str, *, limits: bool = False) -> list[Json]:
    """Of the extender, without what guards pods of tenants."""
    keys = list_guarded_keys()
    guarded = {"assignments": list(keys.assignments), "container_limits": list(keys.container_limits)}
    return read_bounds(
        "extender",
        "account_policies.yaml.j2",
        "objects.yaml.j2",
        __extender_admission=True,
        __extender_guarded=guarded,
        __extender_labels={"app.kubernetes.io/part-of": "accelkit"},
        extender_namespace=namespace,
        extender_name=name,
        extender_expose="service",
        extender_dialects=[],
        extender_former_dialects=[],
        extender_client_names=[],
        extender_container_limits=limits,
    )


def keeper_bounds(namespace: str) -> list[Json]:
    """Of the scheduler's keeper."""
    return read_bounds(
        "scheduler",
        "keeper_policy.yaml.j2",
        "keeper.yaml.j2",
        __scheduler_admission=True,
        __scheduler_keeper_labels={"app.kubernetes.io/part-of": "accelkit"},
        __scheduler_keeper_spec={},
        scheduler_keeper_namespace=namespace,
        scheduler_timeout=60,
    )


def second_scheduler_bounds(namespace: str, name: str) -> list[Json]:
    """Of the second scheduler, which has the rights of kube-scheduler."""
    return read_bounds(
        "second_scheduler",
        "account_policies.yaml.j2",
        "objects.yaml.j2",
        __second_scheduler_admission=True,
        __second_scheduler_labels={"app.kubernetes.io/part-of": "accelkit"},
        second_scheduler_namespace=namespace,
        second_scheduler_name=name,
    )


def certificates_bounds(namespace: str) -> list[Json]:
    """Of the renewal of certificates, which may write the Secrets of the extender and of the webhook."""
    return read_bounds(
        "certificates",
        "renewal_policy.yaml.j2",
        "renewal.yaml.j2",
        __certificates_admission=True,
        __certificates_labels={"app.kubernetes.io/part-of": "accelkit"},
        __certificates_renewed=["accelkit-extender-tls", "accelkit-cache-webhook-tls"],
        certificates_namespace=namespace,
        certificates_renew_days=30,
    )


def reader_bounds(namespace: str, extender: str) -> list[Json]:
    """Of users who read what the extender counts."""
    return read_bounds(
        "extender",
        "readers.yaml.j2",
        __extender_inspector="accelkit-inspector",
        __extender_labels={"app.kubernetes.io/part-of": "accelkit"},
        extender_namespace=namespace,
        extender_name=extender,
    )
