import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.filter import client_names as plugin
from cryptography.x509.oid import ExtendedKeyUsageOID

from accelkit.install.certificates.issuing import Authority


@pytest.mark.parametrize(
    ("common", "dns", "names"),
    [("kube", (), ["kube"]), ("kube", ("b.example", "a.example"), ["a.example", "b.example", "kube"])],
)
def test_client_names_are_common_name_and_dns_names(common, dns, names):
    pair = Authority("company")._issue(common, "group", ExtendedKeyUsageOID.CLIENT_AUTH, dns)
    assert plugin.client_names(pair.certificate.decode()) == names


def test_invalid_client_certificate_raises_filter_error():
    with pytest.raises(AnsibleFilterError, match="cannot read the client's certificate"):
        plugin.client_names("nonsense")
