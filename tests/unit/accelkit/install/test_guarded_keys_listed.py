import pytest

from accelkit.install.guarded_keys import list_guarded_keys
from accelkit.model.card import Card
from accelkit.node.labels.cards import build_card_labels
from accelkit.node.labels.sources import read_cpu_labels, read_kernel_labels, read_pci_labels, read_system_labels
from accelkit.vendors.profiles import load_profiles


def is_allowed(key):
    keys = list_guarded_keys()
    continued = any(key.startswith(own) and key.removeprefix(own).strip("0123456789") == "" for own in keys.node_labels)
    return key.startswith(keys.node_label_prefixes) or continued


@pytest.mark.parametrize("vendor", load_profiles())
def test_policy_allows_every_card_label(vendor):
    cards = [Card(f"c{n}", vendor, "a model", 2**34, index=n, minor=n, numa=n % 2) for n in range(64)]
    labels = build_card_labels(cards, load_profiles())
    assert len(labels) > 3
    assert [key for key in labels if not is_allowed(key)] == []


def test_policy_allows_every_host_label(tmp_path):
    files = {
        "sys/bus/pci/devices/0000:01:00.0/class": "0x030200",
        "sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de",
        "sys/bus/pci/devices/0000:01:00.0/sriov_totalvfs": "4",
        "proc/cpuinfo": "flags\t\t: avx2 aes\n",
        "proc/sys/kernel/osrelease": "6.1.2-x\n",
        "etc/os-release": "ID=debian\nVERSION_ID=12.5\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for read in (read_pci_labels, read_cpu_labels, read_kernel_labels, read_system_labels):
        labels = read(tmp_path)
        assert labels
        assert [key for key in labels if not is_allowed(key)] == []


def test_policy_does_not_allow_labels_that_grant_trust():
    for key in ("node-restriction.kubernetes.io/a", "accelkit.io/share", "feature.node.kubernetes.io/custom-a"):
        assert not is_allowed(key)


def test_keys_written_by_users_are_not_guarded():
    keys = list_guarded_keys()
    assert not {"accelkit.io/request", "gas-allow", "gas-deny", "gas-same-gpu"} & set(keys.assignments)
    assert {"accelkit.io/assignment", "gas-container-tiles", "gas-container-cards"} < set(keys.assignments)
    assert keys.runtime_defaults == {"CUDA_VERSION": "NVIDIA_VISIBLE_DEVICES"}
    # Read by programs, not by a runtime.
    assert "CUDA_VISIBLE_DEVICES" not in keys.runtime_variables
