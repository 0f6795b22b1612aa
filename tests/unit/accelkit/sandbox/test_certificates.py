"""The sandbox's certificates as a verifier sees them, and the kubeconfigs that carry them."""

import base64
import ipaddress
import json
import stat
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from cryptography.x509.verification import PolicyBuilder, Store

from accelkit.sandbox.certificates import (
    Authority,
    encode_kubeconfig,
    generate_service_account_keys,
    write_certificates,
)
from accelkit.sandbox.layout import SandboxPaths, prepare


def certificate(pem):
    return x509.load_pem_x509_certificate(pem)


def verify(authority, leaf, name):
    store = Store([certificate(authority)])
    PolicyBuilder().store(store).time(datetime.now(UTC)).build_server_verifier(name).verify(certificate(leaf), [])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    paths = SandboxPaths(tmp_path_factory.mktemp("s"))
    prepare(paths)
    write_certificates(paths, "https://127.0.0.1:1")
    return paths


@pytest.mark.parametrize(
    "name",
    [
        *(x509.DNSName(f"kubernetes{rest}") for rest in ("", ".default", ".default.svc")),
        x509.DNSName("localhost"),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "10.96.0.1")),
    ],
)
def test_api_server_certificate_is_valid_for_each_name(written, name):
    verify((written.pki / "ca.crt").read_bytes(), (written.pki / "apiserver.crt").read_bytes(), name)


def test_service_account_keys_form_a_pair():
    pair = generate_service_account_keys()
    assert load_pem_public_key(pair.certificate) == load_pem_private_key(pair.key, None).public_key()


def test_kubeconfig_embeds_certificates_and_key():
    authority = Authority("a")
    pair = authority.issue_client("u")
    document = json.loads(encode_kubeconfig("https://s", authority.certificate, "u", pair))
    (context,), (cluster,), (user,) = document["contexts"], document["clusters"], document["users"]
    assert context["name"] == document["current-context"]
    assert context["context"] == {"cluster": cluster["name"], "user": user["name"]}
    assert cluster["cluster"]["server"] == "https://s"
    embedded = [cluster["cluster"]["certificate-authority-data"], *user["user"].values()]
    assert [base64.b64decode(each) for each in embedded] == [authority.certificate, pair.certificate, pair.key]


def test_private_keys_and_kubeconfigs_have_mode_0600(written):
    files = [*written.pki.glob("*.key"), *written.root.glob("*.kubeconfig")]
    assert len(files) == 5
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_each_component_certificate_has_its_rbac_user(written):
    def subject(user):
        data = json.loads(written.build_kubeconfig_path(user).read_bytes())["users"][0]["user"][
            "client-certificate-data"
        ]
        return certificate(base64.b64decode(data)).subject.rfc4514_string()

    assert subject("admin") == "CN=admin,O=system:masters"
    assert subject("kube-scheduler") == "CN=system:kube-scheduler"
    assert subject("kube-controller-manager") == "CN=system:kube-controller-manager"
