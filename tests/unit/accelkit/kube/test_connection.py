import base64
import datetime as dt
import ssl
import threading

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from accelkit.errors import ConfigurationError
from accelkit.kube import connection
from accelkit.kube.connection import load_connection
from accelkit.kube.kubeconfig import credential_files
from accelkit.kube.options import ConnectionOptions


@pytest.fixture(scope="module")
def pem():
    """A self-signed certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(tz=dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {"certificate": certificate.public_bytes(serialization.Encoding.PEM), "key": private}


def encoded(data):
    return base64.b64encode(data).decode()


def embed(pem):
    """The cluster and the user of a kubeconfig that has their certificates and keys in it."""
    certificate, key = encoded(pem["certificate"]), encoded(pem["key"])
    return {"certificate-authority-data": certificate}, {"client-certificate-data": certificate, "client-key-data": key}


@pytest.fixture
def write(tmp_path):
    """Write a kubeconfig with these entries; return its path."""

    def write(cluster=None, user=None, **changes):
        document = {
            "current-context": "c",
            "contexts": [{"name": "other", "context": {}}, {"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": "https://h:6443/"} | (cluster or {})}],
            "users": [{"name": "u", "user": user or {}}],
        }
        path = tmp_path / "config"
        path.write_bytes(msgspec.json.encode(document | changes))
        return path

    return write


def test_embedded_certificates_are_loaded(write, pem):
    found = load_connection(write(*embed(pem)))
    assert (found.server, found.read_authorization()) == ("https://h:6443", None)
    assert len(found.tls.get_ca_certs()) == 1
    assert found.tls.verify_mode is ssl.CERT_REQUIRED


def test_embedded_keys_leave_no_temporary_file(write, pem, tmp_path, monkeypatch):
    with credential_files():
        pass  # What other tests left is not looked at.
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    path = write(*embed(pem))
    for _ in range(2):
        load_connection(path)
        assert list((tmp_path / "temporary").iterdir()) == []


def test_embedded_keys_are_not_deleted_by_another_thread(write, pem, monkeypatch):
    token = load_connection(write(user={"token": "t"})).read_authorization
    path = write(*embed(pem))
    build_tls, others = connection._build_tls, []

    def build_beside_another(found):
        # Its end is not waited for: it has to wait for us.
        others.append(threading.Thread(target=token))
        others[0].start()
        others[0].join(0.2)
        return build_tls(found)

    monkeypatch.setattr(connection, "_build_tls", build_beside_another)
    try:
        assert load_connection(path).tls is not None
    finally:
        others[0].join(10)
    assert not others[0].is_alive()


def test_credential_files_are_resolved_relative_to_kubeconfig(write, pem, tmp_path):
    for name, data in pem.items():
        (tmp_path / f"{name}.pem").write_bytes(data)
    found = load_connection(
        write(
            {"certificate-authority": "certificate.pem"},
            {"client-certificate": "certificate.pem", "client-key": str(tmp_path / "key.pem")},
        )
    )
    assert len(found.tls.get_ca_certs()) == 1


def test_token_file_is_resolved_relative_to_kubeconfig(write, tmp_path):
    (tmp_path / "token").write_text("from file")
    assert load_connection(write(user={"tokenFile": "token"})).read_authorization() == "Bearer from file"


def test_insecure_skip_tls_verify_disables_verification(write):
    found = load_connection(write({"insecure-skip-tls-verify": True}))
    assert (found.tls.verify_mode, found.tls.check_hostname) == (ssl.CERT_NONE, False)


def test_current_context_is_used_unless_host_is_set(write):
    path = str(write())
    assert load_connection(ConnectionOptions(kubeconfig=path)).context == "c"
    given = ConnectionOptions(kubeconfig=path, host="https://other:6443")
    assert (load_connection(given).server, load_connection(given).context) == ("https://other:6443", "")


def test_plain_http_server_needs_no_tls(write):
    found = load_connection(write({"server": "http://127.0.0.1:8080"}))
    assert (found.server, found.tls) == ("http://127.0.0.1:8080", None)


def test_context_without_user_has_no_credentials(write):
    assert load_connection(write(contexts=[{"name": "c", "context": {"cluster": "k"}}])).read_authorization() is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"current-context": "nowhere"}, "object with name nowhere in"),
        ({"current-context": None}, "Expected key current-context"),
        ({"clusters": []}, "object with name k in"),
        ({"users": None}, "object with name u in"),
        ({"contexts": ["c"]}, "contexts"),
        ({"contexts": 5}, "cannot use"),
        ({"contexts": [{"name": "c", "context": "k"}]}, "cannot use"),
        ({"cluster": {"server": ""}}, "server"),
        ({"cluster": {"server": "h:6443"}}, "server"),
        ({"cluster": {"certificate-authority-data": "!"}}, "cannot use"),
        ({"cluster": {"certificate-authority-data": encoded(b"no PEM")}}, "cannot use"),
        ({"cluster": {"certificate-authority": "missing.pem"}}, "missing.pem"),
        ({"user": {"client-certificate": "missing.pem", "client-key": "missing.key"}}, "missing.pem"),
        ({"user": {"client-certificate-data": encoded(b"no PEM")}}, "cannot use"),
        ({"user": {"client-certificate-data": "!", "client-key-data": "!"}}, "cannot use"),
    ],
)
def test_error_names_kubeconfig_and_invalid_entry(write, changes, sentence):
    path = write(**changes)
    with pytest.raises(ConfigurationError) as raised:
        load_connection(path)
    assert str(path) in raised.value.message
    assert sentence in raised.value.message


@pytest.mark.parametrize("content", [b"", b"[]", b"text", b"a: [", b"\xff\xfe\x00", b"a: &a [*a"])
def test_invalid_kubeconfig_file_is_rejected(tmp_path, content):
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=str(path)):
        load_connection(path)


@pytest.mark.parametrize("path", ["missing", "."])
def test_missing_kubeconfig_file_is_rejected(tmp_path, path):
    with pytest.raises(ConfigurationError, match="the file does not exist"):
        load_connection(tmp_path / path)


def test_kubeconfig_environment_variable_is_used(write):
    environ = {"KUBECONFIG": f"{write(user={'token': 't'})}:/other", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert load_connection(environ=environ).read_authorization() == "Bearer t"


def test_kubeconfig_in_home_folder_is_used_last(write, tmp_path):
    (tmp_path / ".kube").mkdir()
    write(user={"token": "t"}).rename(tmp_path / ".kube" / "config")
    assert load_connection(environ={"HOME": str(tmp_path)}).read_authorization() == "Bearer t"


def test_missing_cluster_configuration_is_reported_with_next_step():
    with pytest.raises(ConfigurationError, match="set KUBECONFIG"):
        load_connection(environ={"HOME": "/nonexistent"})


@pytest.mark.parametrize(
    ("host", "url"), [("10.0.0.1", "https://10.0.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")]
)
def test_connection_in_pod_uses_service_account(monkeypatch, tmp_path, pem, host, url):
    monkeypatch.setattr(connection, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "ca.crt").write_bytes(pem["certificate"])
    (tmp_path / "token").write_text("t")
    found = load_connection(environ={"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "6443"})
    assert (found.server, found.read_authorization()) == (url, "Bearer t")


def in_a_pod(folder):
    return {
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "ACCELKIT_SERVICE_ACCOUNT": str(folder),
        "HOME": str(folder),
    }


def test_missing_service_account_files_are_reported(tmp_path):
    with pytest.raises(ConfigurationError, match="pod's service account are missing"):
        load_connection(environ=in_a_pod(tmp_path))


@pytest.fixture
def account(tmp_path, pem):
    """The environment of a pod with its service account."""
    (tmp_path / "ca.crt").write_bytes(pem["certificate"])
    (tmp_path / "token").write_text("pod")
    return in_a_pod(tmp_path)


def test_service_account_takes_precedence_over_kubeconfig_variable(write, account):
    assert (
        load_connection(environ=account | {"KUBECONFIG": str(write(user={"token": "t"}))}).server
        == "https://10.0.0.1:443"
    )


def test_explicit_kubeconfig_takes_precedence_over_service_account(write, account):
    path = write(user={"token": "t"})
    named = account | {"K8S_AUTH_KUBECONFIG": str(path)}
    assert load_connection(environ=named).server == "https://h:6443"
    assert load_connection(path, environ=account).server == "https://h:6443"


def test_explicit_kubeconfig_ignores_host_and_key_from_environment(write):
    environ = {"K8S_AUTH_HOST": "https://other", "K8S_AUTH_API_KEY": "other"}
    found = load_connection(write(user={"token": "t"}), environ=environ)
    assert (found.server, found.read_authorization()) == ("https://h:6443", "Bearer t")


def test_host_and_credentials_need_no_kubeconfig(account):
    environ = {"K8S_AUTH_HOST": "https://awx/", "K8S_AUTH_API_KEY": "t", "K8S_AUTH_VERIFY_SSL": "false"}
    found = load_connection(environ=account | environ)
    assert (found.server, found.read_authorization()) == ("https://awx", "Bearer t")
    assert found.tls.verify_mode is ssl.CERT_NONE


def test_options_override_kubeconfig(write, tmp_path, pem):
    (tmp_path / "ca.pem").write_bytes(pem["certificate"])
    options = ConnectionOptions(
        kubeconfig=write(user={"token": "t"}),
        host="https://other",
        api_key="mine",
        ca_cert=str(tmp_path / "ca.pem"),
        impersonate_user="u",
        impersonate_groups=("a", "b"),
    )
    found = load_connection(options, environ={})
    assert (found.server, found.read_authorization()) == ("https://other", "Bearer mine")
    assert len(found.tls.get_ca_certs()) == 1
    assert found.headers == (("Impersonate-User", "u"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))


def test_context_is_selected_by_name(write):
    path = write(
        contexts=[{"name": "c", "context": {"cluster": "k"}}, {"name": "d", "context": {"cluster": "l", "user": "u"}}],
        clusters=[{"name": "k", "cluster": {"server": "https://k"}}, {"name": "l", "cluster": {"server": "https://l"}}],
        user={"token": "t"},
    )
    environ = {"KUBECONFIG": str(path), "K8S_AUTH_CONTEXT": "d"}
    found = load_connection(environ=environ)
    assert (found.server, found.read_authorization()) == ("https://l", "Bearer t")


def test_several_kubeconfigs_are_merged(write, tmp_path):
    second = write(user={"token": "t"}).rename(tmp_path / "second")
    first = tmp_path / "first"
    first.write_text('{"contexts": [{"name": "d", "context": {"cluster": "k", "user": "u"}}]}')
    environ = {"KUBECONFIG": f"{tmp_path}/missing:{first}:{second}", "K8S_AUTH_CONTEXT": "d"}
    assert load_connection(environ=environ).read_authorization() == "Bearer t"


def test_a_kubeconfig_may_be_a_mapping(write):
    document = msgspec.json.decode(write(user={"token": "t"}).read_bytes())
    found = load_connection(ConnectionOptions(kubeconfig=document), environ={})
    assert (found.server, found.read_authorization()) == ("https://h:6443", "Bearer t")


def write_plugin(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never"}}


def test_exec_plugin_is_called_again_after_token_expiry(write, tmp_path):
    credential = (
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status":'
        ' {"token": "\'$n\'", "expirationTimestamp": "2020-01-01T00:00:00Z"}}'
    )
    user = write_plugin(tmp_path / "plugin", f"cd {tmp_path}; echo >> asked; n=$(wc -l < asked); echo '{credential}'")
    found = load_connection(write(user=user))
    first, second = found.read_authorization(), found.read_authorization()
    assert first.startswith("Bearer ")
    assert first != second


def test_failing_exec_plugin_is_reported_with_reason(write, tmp_path):
    user = write_plugin(tmp_path / "plugin", "echo not logged in >&2; exit 3")
    with pytest.raises(
        ConfigurationError, match=r"returned no credentials: exec: process returned 3. not logged in; log in"
    ):
        load_connection(write(user=user))


def test_proxy_is_used_except_for_excluded_hosts(write):
    path = write({"proxy-url": "http://proxy:3128"})
    assert load_connection(path).proxy == "http://proxy:3128"
    other = ConnectionOptions(kubeconfig=path, proxy="http://other:1", proxy_headers={"proxy_basic_auth": "u:p"})
    found = load_connection(other, environ={})
    assert (found.proxy, found.proxy_headers) == ("http://other:1", {"Proxy-Authorization": "Basic dTpw"})
    excepted = ConnectionOptions(kubeconfig=path, no_proxy="localhost,h")
    assert load_connection(excepted, environ={}).proxy is None
    with pytest.raises(ConfigurationError, match="it is not an HTTP proxy"):
        load_connection(ConnectionOptions(kubeconfig=path, proxy="socks5://p"), environ={})


def test_tls_server_name_is_read_from_kubeconfig(write):
    assert load_connection(write({"tls-server-name": "kubernetes"})).server_name == "kubernetes"


def test_user_name_and_password_use_basic_authentication():
    options = ConnectionOptions(host="http://h", username="u", password="p")  # noqa: S106
    assert load_connection(options, environ={}).read_authorization() == "Basic dTpw"
