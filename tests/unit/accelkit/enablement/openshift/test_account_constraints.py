from accelkit.enablement.openshift.account_constraints import (
    add_constraints,
    find_refused,
    write_created_constraints,
)
from accelkit.enablement.openshift.admission import find_violations
from accelkit.enablement.openshift.constraints import read_constraints
from accelkit.scheduler.arguments import ExtenderSpec, PodImage, Spec
from accelkit.scheduler.node_pod.objects import build_objects

POD = {"serviceAccountName": "agent", "containers": [{"name": "c", "securityContext": {"runAsUser": 0}}]}
LABELS = {"app.kubernetes.io/component": "c"}


def workload(kind, name, spec=None, **metadata):
    template = {"template": {"spec": spec or POD}}
    inner = {"jobTemplate": {"spec": template}} if kind == "CronJob" else template
    return {"kind": kind, "metadata": {"name": name, "namespace": "accelkit", **metadata}, "spec": inner}


def test_constraints_of_each_service_account_precede_workloads():
    objects = [
        {"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {}},
        {"kind": "ValidatingAdmissionPolicy", "metadata": {"name": "x"}, "spec": {"template": "no pod's"}},
        workload("DaemonSet", "a", labels=LABELS),
        workload("CronJob", "b", {**POD, "hostNetwork": True}, labels={"other": "labels"}),
        workload("Deployment", "c", {**POD, "serviceAccountName": ""}),
    ]
    first, second, *rest = add_constraints(objects)
    assert rest == objects
    assert [each["metadata"] for each in (first, second)] == [
        {"name": "accelkit.agent", "labels": LABELS},
        {"name": "accelkit.default", "labels": {}},
    ]
    assert first["users"] == ["system:serviceaccount:accelkit:agent"]
    assert first["allowHostNetwork"]
    assert not second["allowHostNetwork"]


def test_refused_workloads_are_named():
    objects = [workload("DaemonSet", "a"), workload("Deployment", "b", {**POD, "serviceAccountName": "other"})]
    constraints, _, *_ = add_constraints(objects)
    objects[0]["spec"]["template"]["spec"] = {**POD, "hostPID": True}
    stale = {**constraints, "priority": None}
    assert find_refused(objects, [stale]) == [
        "DaemonSet accelkit/a: sharing the host's processes is not allowed",
        "Deployment accelkit/b: SecurityContextConstraints accelkit.other is missing or excludes its ServiceAccount",
    ]
    assert find_refused(objects[:1], [{**constraints, "users": None}]) == [
        "DaemonSet accelkit/a: SecurityContextConstraints accelkit.agent is missing or excludes its ServiceAccount"
    ]
    [problem] = find_refused(objects[:1], [{**constraints, "volumes": 1}])
    assert "cannot be read" in problem


def test_pod_that_configures_kube_scheduler_is_admitted():
    spec = Spec(node="n", kubernetes_version="v1.34.0", extender=ExtenderSpec(url_prefix="https://a:1"))
    _, pod = build_objects("apply", spec, PodImage(image="i"))[-1]
    constraints, _ = add_constraints([{"kind": "Pod", **pod}])
    assert find_violations(pod["spec"], read_constraints(constraints)) == []
    assert constraints["allowedCapabilities"] == ["CHOWN", "DAC_OVERRIDE", "FOWNER"]
    assert constraints["seLinuxContext"] == {"type": "RunAsAny"}
    assert not constraints["allowPrivilegedContainer"]


def test_constraints_for_created_pods_use_default_service_account():
    written = write_created_constraints("accelkit", LABELS)
    assert written["users"] == ["system:serviceaccount:accelkit:default"]
    assert written["runAsUser"] == {"type": "MustRunAs", "uid": 65532}
    assert written["volumes"] == ["configMap", "emptyDir", "image", "persistentVolumeClaim", "secret"]
