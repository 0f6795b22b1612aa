import pytest

from accelkit.enablement.ownership.owners import find_vendor_of, load_owners, parse_owners
from accelkit.errors import ProfileError
from accelkit.vendors.profiles import load_profiles

VENDORS = {"", *load_profiles()}


def test_owners_refer_only_to_known_vendors():
    named = {owner.vendor for owner in load_owners()}
    named |= {mark.vendor for owner in load_owners() for mark in owner.marks if mark.vendor is not None}
    assert named <= VENDORS


@pytest.mark.parametrize("owner", load_owners(), ids=lambda owner: owner.name)
def test_each_owner_has_detection_rule_and_release_instruction(owner):
    assert owner.marks or owner.drivers or owner.daemon_sets
    assert owner.release
    # A mark that goes with its owner need not be looked for among DaemonSets; one that stays must be.
    assert not owner.stays or owner.daemon_sets


@pytest.mark.parametrize("driver", ["accelkit.io", "gpu.accelkit.io"])
def test_owner_table_does_not_list_accelkit(driver):
    assert all(driver not in owner.drivers for owner in load_owners())
    assert all(owner.find_mark(f"{driver}/share") is None for owner in load_owners())


def test_resource_belongs_to_vendor_with_matching_profile():
    assert find_vendor_of("nvidia.com/mig-2g.20gb") == "nvidia"
    assert find_vendor_of("accelkit.io/memory") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[{name: a, title: A, release: b, stray: 1}]", "stray"),
        ("[{name: a, title: A}]", "release"),
        ("[{name: a, title: A, release: b}, {name: a, title: A, release: b}]", "two owners have the same name"),
        ("[{name: a, title: A, release: b, marks: [{key: x, holds: everything}]}]", "holds"),
    ],
)
def test_invalid_owner_table_is_rejected_with_reason(text, why):
    with pytest.raises(ProfileError, match=why):
        parse_owners(text)
