"""The address at which a node is reached."""

import pytest

from accelkit.model.pod import NodeAddress, find_address


def addresses(*pairs):
    return [NodeAddress(kind, address) for kind, address in pairs]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([], ""),
        ([("Hostname", "node-1"), ("InternalIP", "192.0.2.1"), ("InternalIP", "192.0.2.2")], "192.0.2.1"),
        ([("InternalIP", "2001:db8::1")], "2001:db8::1"),
        ([("ExternalIP", "192.0.2.9"), ("Hostname", "node-1.example.org")], "node-1.example.org"),
        ([("InternalIP", "-oProxyCommand=id"), ("Hostname", "node-1")], "node-1"),
        ([("InternalIP", "{{ lookup('pipe', 'id') }}")], ""),
        ([("InternalIP", "192.0.2.1\n")], ""),
    ],
)
def test_find_address_skips_invalid_addresses(given, found):
    assert find_address(addresses(*given)) == found
