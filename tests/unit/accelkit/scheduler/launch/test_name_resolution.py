import dataclasses

import pytest
from odd_manifests import PLAIN
from support.yaml import parse_yaml
from version_table import desired

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.extender_entry import ExtenderEntry
from accelkit.scheduler.launch.manifest import StaticPod

SERVICE = ExtenderEntry(url_prefix="https://accelkit-extender.kube-system.svc:32766")
FIRST = "ClusterFirstWithHostNet"
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://SERVER:6443"}}]
"""


def planned(server="10.0.0.1", *, hosts="", manifest=PLAIN, extender=SERVICE, dns_policy=FIRST):
    files = {"/etc/kubernetes/scheduler.conf": KUBECONFIG.replace("SERVER", server), "/etc/hosts": hosts}
    given = dataclasses.replace(desired("v1.34.4"), extender=extender, dns_policy=dns_policy)
    return StaticPod().plan(manifest, None, lambda path: files[path].encode() if path in files else None, given)


def test_service_name_requires_cluster_dns_policy():
    with pytest.raises(
        ConfigurationError, match=r"cannot resolve the Service name .*ClusterIP with tlsConfig.serverName"
    ):
        planned(dns_policy="")
    assert planned(extender=ExtenderEntry(url_prefix="https://10.96.0.7:1"), dns_policy="").problems == ()


def test_dns_policy_is_added_and_removed():
    plan = planned()
    pod = parse_yaml(plan.launch_text)
    assert pod["spec"]["dnsPolicy"] == FIRST
    assert StaticPod().unswitch(plan.launch_text, None) == PLAIN


def test_existing_dns_policy_is_restored():
    manifest = PLAIN.replace("  hostNetwork: true\n", "  dnsPolicy: Default  # theirs\n  hostNetwork: true\n")
    plan = planned(manifest=manifest)
    assert "dnsPolicy: ClusterFirstWithHostNet  # theirs\n" in plan.launch_text
    assert "    accelkit.io/former-dns-policy: Default\n" in plan.launch_text
    assert StaticPod().unswitch(plan.launch_text, manifest) == manifest


def test_matching_foreign_dns_policy_is_not_removed():
    manifest = PLAIN.replace("  hostNetwork: true\n", f"  dnsPolicy: {FIRST}\n  hostNetwork: true\n")
    plan = planned(manifest=manifest, dns_policy="")
    assert StaticPod().unswitch(plan.launch_text, None) == manifest


@pytest.mark.parametrize("server", ["10.0.0.1", "[fd00::1]", "localhost"])
def test_api_server_address_requires_no_dns(server):
    assert planned(server).problems == ()


def test_api_server_name_that_depends_on_cluster_dns_is_refused():
    with pytest.raises(ConfigurationError, match=r"the API server's name api\.example.*schedule first"):
        planned("api.example")
    assert planned("api.example", hosts="10.0.0.1 api api.example # ours\n").problems == ()


def test_extender_of_all_pods_that_would_block_dns_is_refused():
    with pytest.raises(ConfigurationError, match="every pod, including the DNS pods"):
        planned(extender=dataclasses.replace(SERVICE, managed_resources=()))
    assert planned(extender=dataclasses.replace(SERVICE, managed_resources=(), ignorable=True)).problems == ()


def test_unreadable_kubeconfig_is_reported():
    given = dataclasses.replace(desired("v1.34.4"), extender=SERVICE, dns_policy=FIRST)
    (problem,) = StaticPod().plan(PLAIN, None, lambda _: None, given).problems
    assert "cannot be read" in problem


def test_foreign_annotations_are_preserved():
    manifest = PLAIN.replace(
        "  name: kube-scheduler\n  names", "  annotations:\n    a: b\n  name: kube-scheduler\n  names"
    )
    plan = planned(manifest=manifest)
    assert "    a: b\n    accelkit.io/former-dns-policy: ''\n" in plan.launch_text
    assert StaticPod().unswitch(plan.launch_text, None) == manifest


def test_scheduler_without_kubeconfig_uses_in_cluster_api_server():
    manifest = PLAIN.replace("    - --kubeconfig=/etc/kubernetes/scheduler.conf\n", "")
    assert planned("api.example", manifest=manifest).problems == ()


def test_unsupported_dns_policy_is_refused():
    with pytest.raises(ConfigurationError, match="dns_policy 'None' is invalid"):
        planned(dns_policy="None")
