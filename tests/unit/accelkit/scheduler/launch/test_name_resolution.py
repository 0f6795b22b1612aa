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


def test_a_service_name_needs_the_clusters_dns():
    with pytest.raises(
        ConfigurationError, match=r"cannot resolve the Service name .*ClusterIP with tlsConfig.serverName"
    ):
        planned(dns_policy="")
    assert planned(extender=ExtenderEntry(url_prefix="https://10.96.0.7:1"), dns_policy="").problems == ()


def test_the_dns_policy_is_set_and_taken_back():
    plan = planned()
    pod = parse_yaml(plan.launch_text)
    assert pod["spec"]["dnsPolicy"] == FIRST
    assert StaticPod().unswitch(plan.launch_text, None) == PLAIN


def test_a_dns_policy_that_was_there_comes_back():
    manifest = PLAIN.replace("  hostNetwork: true\n", "  dnsPolicy: Default  # theirs\n  hostNetwork: true\n")
    plan = planned(manifest=manifest)
    assert "dnsPolicy: ClusterFirstWithHostNet  # theirs\n" in plan.launch_text
    assert "    accelkit.io/former-dns-policy: Default\n" in plan.launch_text
    assert StaticPod().unswitch(plan.launch_text, manifest) == manifest


def test_a_dns_policy_that_others_set_is_theirs():
    manifest = PLAIN.replace("  hostNetwork: true\n", f"  dnsPolicy: {FIRST}\n  hostNetwork: true\n")
    plan = planned(manifest=manifest, dns_policy="")
    assert StaticPod().unswitch(plan.launch_text, None) == manifest


@pytest.mark.parametrize("server", ["10.0.0.1", "[fd00::1]", "localhost"])
def test_an_api_server_by_address_depends_on_no_dns(server):
    assert planned(server).problems == ()


def test_an_api_server_by_name_would_be_asked_of_the_dns_that_waits_for_the_scheduler():
    with pytest.raises(ConfigurationError, match=r"the API server's name api\.example.*schedule first"):
        planned("api.example")
    assert planned("api.example", hosts="10.0.0.1 api api.example # ours\n").problems == ()


def test_an_extender_of_all_pods_would_stop_the_dns():
    with pytest.raises(ConfigurationError, match="every pod, including the DNS pods"):
        planned(extender=dataclasses.replace(SERVICE, managed_resources=()))
    assert planned(extender=dataclasses.replace(SERVICE, managed_resources=(), ignorable=True)).problems == ()


def test_an_unreadable_kubeconfig_is_said():
    given = dataclasses.replace(desired("v1.34.4"), extender=SERVICE, dns_policy=FIRST)
    (problem,) = StaticPod().plan(PLAIN, None, lambda _: None, given).problems
    assert "cannot be read" in problem


def test_annotations_of_others_stay():
    manifest = PLAIN.replace(
        "  name: kube-scheduler\n  names", "  annotations:\n    a: b\n  name: kube-scheduler\n  names"
    )
    plan = planned(manifest=manifest)
    assert "    a: b\n    accelkit.io/former-dns-policy: ''\n" in plan.launch_text
    assert StaticPod().unswitch(plan.launch_text, None) == manifest


def test_without_a_kubeconfig_the_api_server_is_the_clusters_own():
    manifest = PLAIN.replace("    - --kubeconfig=/etc/kubernetes/scheduler.conf\n", "")
    assert planned("api.example", manifest=manifest).problems == ()


def test_another_dns_policy_is_refused():
    with pytest.raises(ConfigurationError, match="dns_policy 'None' is invalid"):
        planned(dns_policy="None")
