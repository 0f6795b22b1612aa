import pytest
from support.yaml import parse_yaml

from accelkit.errors import ConfigurationError
from accelkit.scheduler.actions import build_desired_settings
from accelkit.scheduler.arguments import ExtenderSpec, Spec
from accelkit.scheduler.second_scheduler import build_second_scheduler_configuration

PLACE = {"name": "ours", "namespace": "there", "credentials": "/etc/accelkit/client"}


def written(url="https://extender:1", version="v1.34.4", **extender):
    spec = Spec(kubernetes_version=version, extender=ExtenderSpec(url_prefix=url, **extender))
    return spec, parse_yaml(build_second_scheduler_configuration(spec, **PLACE))


def test_second_scheduler_has_its_own_profile_and_lease():
    _, document = written()
    assert document["profiles"] == [{"schedulerName": "ours"}]
    assert document["leaderElection"] == {
        "leaderElect": True,
        "resourceLock": "leases",
        "resourceNamespace": "there",
        "resourceName": "ours",
    }


def test_plain_http_entry_equals_entry_of_default_scheduler():
    spec, document = written("http://extender:1", weight=7, ignorable=True)
    assert document["extenders"] == [build_desired_settings(spec).extender.build_entry()]


def test_https_entry_names_secret_files_and_server_name():
    _, document = written(server_name="accelkit-extender.accelkit.svc")
    [entry] = document["extenders"]
    assert entry["enableHTTPS"] is True
    assert entry["tlsConfig"] == {
        "serverName": "accelkit-extender.accelkit.svc",
        "caFile": "/etc/accelkit/client/ca.crt",
        "certFile": "/etc/accelkit/client/tls.crt",
        "keyFile": "/etc/accelkit/client/tls.key",
    }


@pytest.mark.parametrize(
    ("version", "api_version"),
    [("v1.21.0", "v1beta1"), ("v1.24.1", "v1beta3"), ("v1.33.5-gke.100", "v1"), ("v1.34.4", "v1")],
)
def test_version_determines_configuration_format(version, api_version):
    assert written(version=version)[1]["apiVersion"] == f"kubescheduler.config.k8s.io/{api_version}"


def test_missing_version_is_refused():
    with pytest.raises(ConfigurationError, match="cannot configure kube-scheduler without"):
        written(version="")
