"""The objects by which a node runs `accelkit config-manager` once, to the letter, since they hold rights."""

import msgspec
import pytest

from accelkit.scheduler.arguments import LaunchSpec, PodImage, Spec
from accelkit.scheduler.node_pod.objects import build_objects, build_pod_name, compute_deadline_seconds

NAME = "accelkit-config-manager-1b16b1df53"
SPEC = Spec(node="n")
METADATA = {
    "name": NAME,
    "namespace": "kube-system",
    "labels": {"app.kubernetes.io/name": "accelkit-config-manager", "app.kubernetes.io/part-of": "accelkit"},
}
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system"


def build(action="apply", spec=SPEC, **source):
    return dict(build_objects(action, spec, PodImage("i", **source)))


def pod(*given, **more):
    return build(*given, **more)["/api/v1/namespaces/kube-system/pods"]["spec"]


def mounts(*given, **more):
    """What the pod sees of the host: path in the container, path on the host, kind, whether it is written."""
    spec = pod(*given, **more)
    (container,) = spec["containers"]
    volumes = {each["name"]: each["hostPath"] for each in spec["volumes"][1:]}
    return [
        (each["mountPath"], volumes[each["name"]]["path"], volumes[each["name"]]["type"], not each["readOnly"])
        for each in container["volumeMounts"][1:]
    ]


def test_pod_name_is_derived_from_node_name():
    assert build_pod_name("n") == NAME


def test_rbac_objects_and_secret_are_created_before_pod():
    found = build_objects("apply", SPEC, PodImage("i"))
    assert found[:-1] == [
        ("/api/v1/namespaces/kube-system/serviceaccounts", {"metadata": METADATA}),
        (
            f"{RBAC}/roles",
            {
                "metadata": METADATA,
                "rules": [{"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get"]}],
            },
        ),
        (
            f"{RBAC}/rolebindings",
            {
                "metadata": METADATA,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
                "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": "kube-system"}],
            },
        ),
        (
            "/api/v1/namespaces/kube-system/secrets",
            {"metadata": METADATA, "stringData": {"spec.json": msgspec.json.encode(SPEC).decode()}},
        ),
    ]
    assert found[-1][0] == "/api/v1/namespaces/kube-system/pods"
    assert found[-1][1]["metadata"] == METADATA


def test_pod_runs_once_on_its_node_with_minimal_privileges():
    spec = pod(pull_secrets=("s",))
    (container,) = spec.pop("containers")
    assert spec.pop("volumes")[0] == {"name": "spec", "secret": {"secretName": NAME, "defaultMode": 0o400}}
    assert spec == {
        "nodeName": "n",
        "restartPolicy": "Never",
        "activeDeadlineSeconds": 540,
        "serviceAccountName": NAME,
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "hostNetwork": True,
        "dnsPolicy": "Default",
        "imagePullSecrets": [{"name": "s"}],
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
            "seLinuxOptions": {"type": "spc_t"},
        },
    }
    assert container.pop("volumeMounts")[0] == {"name": "spec", "mountPath": "/run/accelkit", "readOnly": True}
    assert container == {
        "name": "config-manager",
        "image": "i",
        "imagePullPolicy": "IfNotPresent",
        "args": ["config-manager", "apply", "--spec", "/run/accelkit/spec.json", "--root", "/host"],
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]},
        },
    }


@pytest.mark.parametrize(
    ("action", "writes"),
    [("apply", True), ("remove", True), ("compare", False), ("check", False), ("compare-removal", False)],
)
def test_host_folders_are_writable_only_for_changing_actions(action, writes):
    assert mounts(action) == [
        ("/host/etc/kubernetes", "/etc/kubernetes", "Directory", writes),
        ("/host/var/lib", "/var/lib", "Directory", writes),
    ]


def test_additional_host_paths_are_mounted_read_only():
    spec = Spec(node="n", dns_policy="ClusterFirstWithHostNet")
    assert mounts("apply", spec, host_folders=("/opt/x", "/var/lib"))[2:] == [
        ("/host/opt/x", "/opt/x", "Directory", False),
        ("/host/etc/hosts", "/etc/hosts", "File", False),
    ]


def test_manifest_folder_is_mounted_at_any_path():
    launch = LaunchSpec(path="/opt/kube/manifests/deep/kube-scheduler.yaml")
    spec = Spec(node="n", launch=launch, folder="/opt/kube/accelkit", backup_dir="/opt/kube/backup")
    assert mounts("apply", spec)[0] == ("/host/opt/kube", "/opt/kube", "Directory", True)


@pytest.mark.parametrize(("timeout", "seconds"), [(0, 180), (1, 183), (120, 540)])
def test_pod_deadline_covers_three_waits_and_startup(timeout, seconds):
    assert compute_deadline_seconds(Spec(node="n", timeout=timeout)) == seconds
