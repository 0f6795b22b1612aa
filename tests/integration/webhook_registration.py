"""The webhook's configuration and the policies that refuse pods without it, as the role renders them."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any, Final

from bounded_accounts import read_bounds, render

from accelkit.cachecontroller.webhook.server import PATH
from accelkit.kube.paths import build_collection_path

CONFIGURATIONS: Final = build_collection_path("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations")
_SETTINGS: Final = {
    "__kernel_cache_admission": True,
    "__kernel_cache_labels": {"app.kubernetes.io/part-of": "accelkit"},
    "kernel_cache_webhook": True,
    "kernel_cache_namespace": "accelkit",
    "kernel_cache_name": "accelkit-cache-controller",
    "kernel_cache_registry_mirrors": {},
    "kernel_cache_registry_plain_http": (),
}


def build_configuration(name: str, port: int, authorities: Path) -> dict[str, Any]:
    """The MutatingWebhookConfiguration, with a port of this machine in the place of the Service."""
    objects = render("kernel_cache", "objects.yaml.j2", **_SETTINGS)
    (made,) = [each for each in objects if each["kind"] == "MutatingWebhookConfiguration"]
    (webhook,) = made["webhooks"]
    assert webhook["clientConfig"]["service"]["path"] == PATH
    bundle = b64encode(authorities.read_bytes()).decode()
    webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{PATH}", "caBundle": bundle}
    return {**made, "metadata": {"name": name}}


def read_handled_policies() -> list[dict[str, Any]]:
    """The policies that refuse a pod of a cache which the webhook did not handle, with their bindings."""
    return read_bounds("kernel_cache", "handled_pods.yaml.j2", **_SETTINGS)
