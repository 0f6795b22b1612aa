import pytest
from hypothesis import given
from hypothesis import strategies as st
from narrower_constraints import tighten

from accelkit.enablement.openshift.admission import find_violations
from accelkit.enablement.openshift.constraints import (
    ANY,
    MUST,
    NON_ROOT,
    RANGE,
    ContextStrategy,
    GroupStrategy,
    IdRange,
    UserStrategy,
    needed_constraints,
    read_constraints,
    write_constraints,
)
from accelkit.enablement.openshift.pod_security import SELinuxOptions
from accelkit.errors import ConfigurationError

CLOSED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsUser": 65532,
    "capabilities": {"drop": ["ALL"]},
}


def pod(*contexts, **fields):
    containers = [{"name": f"c{at}", "securityContext": each} for at, each in enumerate(contexts)]
    return {"automountServiceAccountToken": False, "containers": containers, **fields}


def test_restricted_pod_receives_minimal_constraints():
    needed = needed_constraints(pod(CLOSED))
    assert write_constraints(needed, "a.b", users=["u"], labels={"l": "v"}) == {
        "apiVersion": "security.openshift.io/v1",
        "kind": "SecurityContextConstraints",
        "metadata": {"name": "a.b", "labels": {"l": "v"}},
        "users": ["u"],
        "groups": [],
        "allowHostDirVolumePlugin": False,
        "allowHostIPC": False,
        "allowHostNetwork": False,
        "allowHostPID": False,
        "allowHostPorts": False,
        "allowPrivilegeEscalation": False,
        "allowPrivilegedContainer": False,
        "allowedCapabilities": [],
        "allowedUnsafeSysctls": [],
        "defaultAddCapabilities": [],
        "forbiddenSysctls": ["*"],
        "fsGroup": {"type": "MustRunAs"},
        "priority": 0,
        "readOnlyRootFilesystem": True,
        "requiredDropCapabilities": ["ALL"],
        "runAsUser": {"type": "MustRunAs", "uid": 65532},
        "seLinuxContext": {"type": "MustRunAs"},
        "seccompProfiles": [],
        "supplementalGroups": {"type": "MustRunAs"},
        "volumes": ["none"],
    }


@pytest.mark.parametrize(
    ("contexts", "fields", "expected"),
    [
        ([CLOSED, {**CLOSED, "runAsUser": 0}], {}, UserStrategy(RANGE, uid_range_min=0, uid_range_max=65532)),
        ([{**CLOSED, "runAsUser": None, "runAsNonRoot": True}], {}, UserStrategy(NON_ROOT)),
        ([{**CLOSED, "runAsUser": None}, CLOSED], {"securityContext": {"runAsNonRoot": True}}, UserStrategy(NON_ROOT)),
        ([{**CLOSED, "runAsUser": None}], {}, UserStrategy(ANY)),
        ([{**CLOSED, "runAsUser": None, "runAsNonRoot": True}, {**CLOSED, "runAsUser": 0}], {}, UserStrategy(ANY)),
        ([{**CLOSED, "runAsUser": None}], {"securityContext": {"runAsUser": 7}}, UserStrategy(MUST, uid=7)),
    ],
)
def test_allowed_users_are_those_of_containers(contexts, fields, expected):
    assert needed_constraints(pod(*contexts, **fields)).run_as_user == expected


def test_selinux_context_without_level_allows_any_context():
    options = {"type": "spc_t"}
    spec = pod(CLOSED, securityContext={"seLinuxOptions": options})
    assert needed_constraints(spec).se_linux_context == ContextStrategy(ANY)
    spec = pod({**CLOSED, "seLinuxOptions": {**options, "level": "s0"}})
    whole = SELinuxOptions(type="spc_t", level="s0")
    assert needed_constraints(spec).se_linux_context == ContextStrategy(MUST, whole)
    assert needed_constraints(spec, pod(CLOSED)).se_linux_context == ContextStrategy(ANY)


def test_container_ports_on_host_network_are_host_ports():
    port = {"name": "c", "ports": [{"containerPort": 80}]}
    assert needed_constraints({"containers": [port], "hostNetwork": True}).allow_host_ports
    assert not needed_constraints({"containers": [port]}).allow_host_ports
    assert not needed_constraints(pod(CLOSED, hostNetwork=True)).allow_host_ports
    assert needed_constraints({"containers": [{"ports": [{"hostPort": 80}]}]}).allow_host_ports


def test_projected_service_account_token_counts_as_volume():
    assert needed_constraints({"containers": [{}]}).volumes == ("projected",)
    volumes = [{"name": "a", "hostPath": {"path": "/a"}}, {"name": "b"}, {"name": "c", "vsphereVolume": {}}]
    assert needed_constraints(pod(CLOSED, volumes=volumes)).volumes == ("emptyDir", "hostPath", "vsphere")


def test_constraints_of_shared_account_combine_needs_of_all_pods():
    both = needed_constraints(
        pod({**CLOSED, "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}, securityContext={"fsGroup": 3}),
        pod({**CLOSED, "capabilities": {"drop": ["NET_RAW", "ALL"]}}, securityContext={"fsGroup": 9}),
    )
    assert both.required_drop_capabilities == ("ALL",)
    assert both.allowed_capabilities == ("CHOWN",)
    assert both.fs_group == GroupStrategy(MUST, (IdRange(3, 3), IdRange(9, 9)))
    assert needed_constraints(pod(CLOSED), pod(CLOSED, securityContext={"fsGroup": 3})).fs_group == GroupStrategy(ANY)


def test_invalid_pod_specification_is_rejected():
    with pytest.raises(ConfigurationError, match="cannot read the pod specification"):
        needed_constraints({"containers": "none"})


CONTEXTS = st.fixed_dictionaries(
    {},
    optional={
        "privileged": st.booleans(),
        "allowPrivilegeEscalation": st.booleans(),
        "readOnlyRootFilesystem": st.booleans(),
        "runAsUser": st.sampled_from([0, 1, 65532]),
        "runAsNonRoot": st.booleans(),
        "capabilities": st.fixed_dictionaries(
            {},
            optional={
                "add": st.lists(st.sampled_from(["CHOWN", "SYS_ADMIN"]), unique=True),
                "drop": st.lists(st.sampled_from(["ALL", "NET_RAW"]), unique=True),
            },
        ),
        "seccompProfile": st.sampled_from(
            [{"type": "RuntimeDefault"}, {"type": "Unconfined"}, {"type": "Localhost", "localhostProfile": "p.json"}]
        ),
        "seLinuxOptions": st.sampled_from([{"type": "spc_t"}, {"type": "a_t", "level": "s0"}]),
    },
)
PODS = st.builds(
    pod,
    CONTEXTS,
    CONTEXTS,
    hostNetwork=st.booleans(),
    hostPID=st.booleans(),
    hostIPC=st.booleans(),
    automountServiceAccountToken=st.booleans(),
    initContainers=st.lists(st.builds(lambda context: {"name": "i", "securityContext": context}, CONTEXTS), max_size=1),
    volumes=st.lists(st.sampled_from([{"name": "h", "hostPath": {}}, {"name": "s", "secret": {}}]), max_size=2),
    securityContext=st.fixed_dictionaries(
        {},
        optional={
            "runAsUser": st.sampled_from([0, 7]),
            "fsGroup": st.sampled_from([5, 6]),
            "supplementalGroups": st.lists(st.sampled_from([1, 2]), unique=True),
            "sysctls": st.lists(st.sampled_from([{"name": "net.a"}, {"name": "kernel.b"}]), unique_by=str),
        },
    ),
)


@given(st.lists(PODS, min_size=1, max_size=2))
def test_constraints_admit_pods_and_cannot_be_narrowed(pods):
    needed = needed_constraints(*pods)
    assert [find_violations(each, needed) for each in pods] == [[]] * len(pods)
    assert read_constraints(write_constraints(needed, "a.b", users=[], labels={})) == needed
    for what, narrower in tighten(needed):
        assert any(find_violations(each, narrower) for each in pods), what
