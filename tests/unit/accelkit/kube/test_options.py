import pytest

from accelkit.errors import ConfigurationError
from accelkit.kube.options import ConnectionOptions


def test_options_are_empty_without_arguments_and_environment():
    assert ConnectionOptions.collect({}, {}) == ConnectionOptions()


@pytest.mark.parametrize(
    ("variable", "value", "option", "expected"),
    [
        ("K8S_AUTH_HOST", "https://h", "host", "https://h"),
        ("K8S_AUTH_API_KEY", "t", "api_key", "t"),
        ("K8S_AUTH_CONTEXT", "c", "context", "c"),
        ("K8S_AUTH_KUBECONFIG", "/a:/b", "kubeconfig", "/a:/b"),
        ("K8S_AUTH_CA_CERT", "/ca", "ca_cert", "/ca"),
        ("K8S_AUTH_SSL_CA_CERT", "/ca", "ca_cert", "/ca"),
        ("K8S_AUTH_CERT_FILE", "/c", "client_cert", "/c"),
        ("K8S_AUTH_KEY_FILE", "/k", "client_key", "/k"),
        ("K8S_AUTH_VERIFY_SSL", "False", "validate_certs", False),
        ("K8S_AUTH_VERIFY_SSL", "true", "validate_certs", True),
        ("K8S_AUTH_VALIDATE_CERTS", "0", "validate_certs", False),
        ("K8S_AUTH_VALIDATE_CERTS", "", "validate_certs", None),
        ("K8S_AUTH_PERSIST_CONFIG", "no", "persist_config", False),
        ("K8S_AUTH_IMPERSONATE_USER", "u", "impersonate_user", "u"),
        ("K8S_AUTH_IMPERSONATE_GROUPS", "a,b,", "impersonate_groups", ("a", "b")),
        ("K8S_AUTH_NO_PROXY", "localhost", "no_proxy", "localhost"),
        ("K8S_AUTH_PROXY_HEADERS_BASIC_AUTH", "u:p", "proxy_headers", {"basic_auth": "u:p"}),
    ],
)
def test_environment_variables_match_kubernetes_core(variable, value, option, expected):
    assert getattr(ConnectionOptions.collect({}, {variable: value}), option) == expected


def test_explicit_options_override_environment():
    given = {"host": "https://given", "validate_certs": False, "context": None}
    environ = {"K8S_AUTH_HOST": "https://other", "K8S_AUTH_VERIFY_SSL": "true", "K8S_AUTH_CONTEXT": "c"}
    found = ConnectionOptions.collect(given, environ)
    assert (found.host, found.validate_certs, found.context) == ("https://given", False, "c")


def test_kubeconfig_of_invalid_type_is_rejected():
    with pytest.raises(ConfigurationError, match="cannot use a kubeconfig of type list; specify its path"):
        ConnectionOptions.collect({"kubeconfig": ["a"]}, {})


@pytest.mark.parametrize(
    ("given", "authenticates"),
    [
        ({"host": "h", "api_key": "t"}, True),
        ({"host": "h", "username": "u", "password": "p"}, True),
        ({"host": "h", "client_cert": "c", "client_key": "k"}, True),
        ({"host": "h"}, False),
        ({"api_key": "t"}, False),
        ({"host": "h", "client_cert": "c"}, False),
        ({"host": "h", "username": "u"}, False),
        ({"host": "", "api_key": "t"}, False),
    ],
)
def test_options_authenticate_only_with_host_and_complete_credentials(given, authenticates):
    assert ConnectionOptions.collect(given, {}).authenticates is authenticates
