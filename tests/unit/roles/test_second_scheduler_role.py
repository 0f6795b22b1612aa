"""The role's objects, as Ansible renders them."""

from pathlib import Path

import pytest
from rendering import ROOT, render
from support.yaml import parse_yaml, read_yaml

NAME = "accelkit-scheduler"
VERSION = {"second_scheduler_kubernetes_version": "v1.34.4-eks-1"}
PLAIN = {
    "second_scheduler_extender_url": "http://10.0.0.1:32766",
    "second_scheduler_image_pull_secrets": ["a", "b"],
}
# Rendered once, by one process.
pytestmark = pytest.mark.xdist_group("second_scheduler_role")


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """The objects by case, kind and name."""
    cases = {"defaults": VERSION, "plain": VERSION | PLAIN}
    found = render(tmp_path_factory.mktemp("second"), "second_scheduler", "objects.yaml.j2", cases)
    return {
        case: {(each["kind"], each["metadata"]["name"]): each for each in objects} for case, objects in found.items()
    }


def test_objects_reference_each_other_consistently(rendered):
    found = rendered["defaults"]
    version = read_yaml(ROOT / "galaxy.yml")["version"]
    assert {each["metadata"]["labels"]["app.kubernetes.io/version"] for each in found.values()} == {version}
    assert all(each["metadata"]["labels"]["app.kubernetes.io/part-of"] == "accelkit" for each in found.values())
    referred = {
        (kind, name): each["roleRef"]["name"] for (kind, name), each in found.items() if kind.endswith("Binding")
    }
    assert referred == {
        ("ClusterRoleBinding", NAME): "system:kube-scheduler",
        ("ClusterRoleBinding", f"{NAME}-volumes"): "system:volume-scheduler",
        ("RoleBinding", f"{NAME}-authentication"): "extension-apiserver-authentication-reader",
        ("RoleBinding", NAME): NAME,
    }
    assert found["RoleBinding", f"{NAME}-authentication"]["metadata"]["namespace"] == "kube-system"
    for kind, name in referred:
        assert found[kind, name]["subjects"] == [{"kind": "ServiceAccount", "name": NAME, "namespace": "accelkit"}]
    assert found["Role", NAME]["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [NAME],
            "verbs": ["get", "update"],
        },
    ]
    configuration = parse_yaml(found["ConfigMap", NAME]["data"]["scheduler.yaml"])
    assert configuration["leaderElection"]["resourceNamespace"] == "accelkit"

    deployment = found["Deployment", NAME]["spec"]
    spec = deployment["template"]["spec"]
    [container] = spec["containers"]
    assert deployment["selector"]["matchLabels"].items() <= deployment["template"]["metadata"]["labels"].items()
    assert container["image"] == "registry.k8s.io/kube-scheduler:v1.34.4"
    folders = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert Path(configuration["extenders"][0]["tlsConfig"]["caFile"]).parent == Path(folders[1])
    assert f"--config={folders[0]}" in container["command"]
    assert spec["volumes"][1]["secret"]["secretName"] == "accelkit-scheduler-client"
    # The Pod Security Standard `restricted`.
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_plain_http_extender_needs_no_client_secret(rendered):
    found = rendered["plain"]
    spec = found["Deployment", NAME]["spec"]["template"]["spec"]
    assert [volume["name"] for volume in spec["volumes"]] == ["configuration"]
    assert spec["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
    assert "tlsConfig" not in found["ConfigMap", NAME]["data"]["scheduler.yaml"]
