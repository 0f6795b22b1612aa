import copy

import pytest
from scheduler_manifests import MINORS
from strict_types import read_formats as released_formats
from strict_types import violations
from version_table import DOCUMENT, row, table

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.versions import (
    check_readable,
    parse_minor,
    read_formats,
    reads_policy,
)


def test_version_document_matches_code():
    assert DOCUMENT.read_text() == table(), (
        "docs/reference/scheduler-versions.md is stale; run python tests/unit/accelkit/scheduler/version_table.py"
    )


@pytest.mark.parametrize("minor", MINORS)
def test_written_configuration_is_valid_and_minimal_for_each_version(minor):
    document = row(minor).document
    assert violations(document, minor) == []
    (entry,) = document["extenders"]
    assert (entry["enableHTTPS"], entry["httpTimeout"]) == (True, "10s")
    assert entry["tlsConfig"]["serverName"] == "accelkit-extender.kube-system.svc"
    assert document["clientConnection"] == {"kubeconfig": "/etc/kubernetes/scheduler.conf"}
    assert document["leaderElection"] == {"leaderElect": True}
    assert ("healthzBindAddress" in document) == (minor <= 22)


@pytest.mark.parametrize("minor", MINORS)
def test_format_table_matches_released_types(minor):
    released = released_formats(minor)
    assert set(read_formats(minor)) == released - {"Policy"}
    assert reads_policy(minor) == ("Policy" in released)


def test_strict_validation_finds_each_invalid_field():
    good = row(34).document
    changes = {
        "extender's key of a Policy": lambda d: d["extenders"][0].update(enableHttps=True),
        "nanoseconds": lambda d: d["extenders"][0].update(httpTimeout=10_000_000_000),
        "a number as string": lambda d: d["extenders"][0].update(weight="1"),
        "a bare list": lambda d: d.update(extenders={}),
        "not a duration": lambda d: d["leaderElection"].update(leaseDuration="15"),
        "unknown below": lambda d: d["extenders"][0]["tlsConfig"].update(ca="x"),
        "gone in v1": lambda d: d.update(healthzBindAddress="0.0.0.0:0"),
        "boolean as number": lambda d: d.update(parallelism=True),
    }
    for name, change in changes.items():
        bad = copy.deepcopy(good)
        change(bad)
        assert len(violations(bad, 34)) == 1, name


@pytest.mark.parametrize(("version", "minor"), [("v1.34.4", 34), ("v1.21", 21), ("v1.27.3-gke.100", 27), ("1.22+", 22)])
def test_kubernetes_versions_are_parsed(version, minor):
    assert parse_minor(version) == minor


@pytest.mark.parametrize("version", ["", "latest", "v2.0.0", "1", "v1.x", "1.34.4; rm"])
def test_invalid_version_is_refused(version):
    with pytest.raises(ConfigurationError, match="is not a valid Kubernetes version"):
        parse_minor(version)


def test_version_older_than_1_21_is_refused():
    with pytest.raises(ConfigurationError, match=r"v1\.20\.15 is older than 1\.21"):
        parse_minor("v1.20.15")


def test_unsupported_format_error_names_supported_formats():
    assert check_readable("kubescheduler.config.k8s.io/v1beta3", 25) == "v1beta3"
    with pytest.raises(ConfigurationError, match=r"1\.29 does not accept .*v1beta3.*reads kubescheduler.*/v1;"):
        check_readable("kubescheduler.config.k8s.io/v1beta3", 29)
