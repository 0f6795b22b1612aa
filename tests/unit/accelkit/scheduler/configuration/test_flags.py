import pytest
from scheduler_manifests import MINORS
from strict_types import violations

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.command_line import parse
from accelkit.scheduler.configuration.extender_entry import ExtenderEntry
from accelkit.scheduler.configuration.flags import carry_flags
from accelkit.scheduler.configuration.versions import choose_written_format

ALL = [
    "kube-scheduler",
    "--kubeconfig=/etc/s.conf",
    "--kube-api-content-type=application/json",
    "--kube-api-qps=62.5",
    "--kube-api-burst=90",
    "--leader-elect",
    "--leader-elect-lease-duration=20s",
    "--leader-elect-renew-deadline=12s",
    "--leader-elect-retry-period=3s",
    "--leader-elect-resource-lock=leases",
    "--lock-object-name=old",
    "--lock-object-namespace=team",
    "--leader-elect-resource-name=new",
    "--leader-elect-resource-namespace=other",
    "--profiling=false",
    "--contention-profiling=F",
    "--scheduler-name=own",
    "--hard-pod-affinity-symmetric-weight=7",
    "--address=::",
    "--port=10251",
    "--secure-port=10259",
    "--authentication-kubeconfig=/etc/s.conf",
]


@pytest.mark.parametrize("minor", MINORS)
def test_every_overridden_flag_maps_to_its_field(minor):
    form = choose_written_format(minor)
    fields = carry_flags(parse(ALL).options, form, minor).fields
    document = {"apiVersion": f"kubescheduler.config.k8s.io/{form}", "kind": "KubeSchedulerConfiguration", **fields}
    assert violations(document, minor) == []
    addresses = {key: fields.pop(key) for key in ("healthzBindAddress", "metricsBindAddress") if key in fields}
    assert addresses == (
        {"healthzBindAddress": "[::]:10251", "metricsBindAddress": "[::]:10251"} if minor <= 22 else {}
    )
    assert fields == {
        "clientConnection": {
            "kubeconfig": "/etc/s.conf",
            "contentType": "application/json",
            "qps": 62.5,
            "burst": 90,
        },
        "leaderElection": {
            "leaderElect": True,
            "leaseDuration": "20s",
            "renewDeadline": "12s",
            "retryPeriod": "3s",
            "resourceLock": "leases",
            "resourceName": "new",
            "resourceNamespace": "other",
        },
        "enableProfiling": False,
        "enableContentionProfiling": False,
        "profiles": [
            {
                "schedulerName": "own",
                "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 7}}],
            }
        ],
    }


def test_deprecated_flag_names_apply_without_current_names():
    options = parse(["kube-scheduler", "--lock-object-name=old", "--lock-object-namespace=team"]).options
    election = carry_flags(options, "v1beta1", 21).fields["leaderElection"]
    assert election == {"resourceName": "old", "resourceNamespace": "team"}


@pytest.mark.parametrize(
    ("flags", "bind"),
    [
        (["--port=0"], "0.0.0.0:0"),
        (["--port=10200"], "0.0.0.0:10200"),
        (["--address=10.0.0.1"], "10.0.0.1:10251"),
        (["--address=10.0.0.1", "--port=0"], "10.0.0.1:0"),
        (["--address=::1", "--port=7"], "[::1]:7"),
    ],
)
def test_insecure_port_and_address_are_carried_over(flags, bind):
    fields = carry_flags(parse(["kube-scheduler", *flags]).options, "v1beta1", 21).fields
    assert fields == {"healthzBindAddress": bind, "metricsBindAddress": bind}


def test_flag_without_equivalent_field_is_reported():
    options = parse(["kube-scheduler", "--algorithm-provider=ClusterAutoscalerProvider"]).options
    (problem,) = carry_flags(options, "v1beta1", 21).problems
    assert "ClusterAutoscalerProvider" in problem
    assert (
        carry_flags(parse(["kube-scheduler", "--algorithm-provider=DefaultProvider"]).options, "v1beta1", 21).problems
        == ()
    )


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("leader-elect", "maybe"),
        ("kube-api-qps", "many"),
        ("kube-api-burst", "1.5"),
        ("port", "many"),
        ("hard-pod-affinity-symmetric-weight", "many"),
    ],
)
def test_invalid_flag_value_is_reported_with_flag_name(flag, value):
    options = parse(["kube-scheduler", f"--{flag}={value}"]).options
    with pytest.raises(ConfigurationError, match=f"flag --{flag}: kube-scheduler rejects its value '{value}'"):
        carry_flags(options, "v1beta1", 21)


@pytest.mark.parametrize(
    ("duration", "nanoseconds"),
    [("10s", 10**10), ("1m30s", 9 * 10**10), ("1.5s", 15 * 10**8), ("0", 0), ("500ms", 5 * 10**8)],
)
def test_durations_are_converted_to_nanoseconds(duration, nanoseconds):
    assert (
        ExtenderEntry(url_prefix="http://a", http_timeout=duration).build_legacy_entry()["httpTimeout"] == nanoseconds
    )


@pytest.mark.parametrize("duration", ["", "10", "s", "10 s", "1x"])
def test_invalid_duration_is_refused(duration):
    with pytest.raises(ConfigurationError, match="is not a valid duration"):
        ExtenderEntry(url_prefix="http://a", http_timeout=duration).build_legacy_entry()
