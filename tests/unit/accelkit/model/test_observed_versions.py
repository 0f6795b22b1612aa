import pytest

from accelkit.model import observed_versions as module
from accelkit.model.object_meta import ObjectIdentity
from accelkit.model.observed_versions import ObservedVersions


def metadata(version, uid="u"):
    return ObjectIdentity(uid=uid, resource_version=version)


@pytest.fixture
def versions():
    return ObservedVersions()


@pytest.mark.parametrize(
    ("before", "after", "taken"),
    [("5", "6", True), ("5", "5", True), ("10", "9", False), ("9", "10", True), ("99", "0100", True)],
)
def test_an_older_version_is_refused(versions, before, after, taken):
    assert versions.take(metadata(before))
    assert versions.take(metadata(after)) is taken
    assert versions.take(metadata("1", uid="other"))


@pytest.mark.parametrize("odd", ["", "x", "-1", "1.5", "٣", " 7", "1_0"])
def test_version_that_is_not_an_integer_is_not_compared(versions, odd):
    assert versions.take(metadata("5"))
    assert versions.take(metadata(odd))
    assert versions.take(metadata("4"))


@pytest.mark.parametrize("version", ["3", "9", "x"])
def test_deleted_object_is_not_accepted_again(versions, version):
    versions.take(metadata("5"))
    versions.end(metadata("6"))
    assert not versions.take(metadata(version))
    assert not versions.uids


def test_number_of_remembered_deletions_is_bounded(versions, monkeypatch):
    monkeypatch.setattr(module, "_MAX_DELETED", 2)
    for uid in "abc":
        versions.end(metadata("6", uid))
    assert [versions.take(metadata("5", uid)) for uid in "abc"] == [True, False, False]


def test_objects_missing_from_list_are_discarded_unless_newer(versions):
    for uid, version in (("listed", "1"), ("old", "7"), ("same", "8"), ("new", "9")):
        versions.take(metadata(version, uid))
    assert sorted(versions.discard_missing({"listed"}, "8")) == ["old", "same"]
    assert versions.uids == {"listed", "new"}


@pytest.mark.parametrize(("known", "listed"), [("x", "8"), ("7", ""), ("7", "x")])
def test_objects_with_incomparable_versions_are_discarded_only_if_unsure(versions, known, listed):
    versions.take(metadata(known))
    assert versions.discard_missing((), listed) == []
    assert versions.discard_missing((), listed, unsure=True) == ["u"]


def test_list_newer_than_deletion_clears_remembered_deletion(versions):
    versions.end(metadata("6"))
    versions.discard_missing((), "5")
    assert not versions.take(metadata("4"))
    versions.discard_missing((), "6")
    assert versions.take(metadata("4"))


def test_list_differences_returns_changed_new_and_missing_objects(versions):
    for uid in ("same", "changed", "deleted", "read later", "ended"):
        versions.take(metadata("5", uid))
    versions.take(metadata("30", "read later"))
    versions.end(metadata("6", "ended"))
    listed = [metadata("5", "same"), metadata("7", "changed"), metadata("8", "new"), metadata("5", "ended")]
    assert versions.list_differences(listed, "20") == {"changed": "7", "new": "8", "deleted": ""}


@pytest.mark.parametrize("odd", ["", "x"])
def test_list_differences_ignores_versions_that_are_not_integers(versions, odd):
    versions.take(metadata("5", "listed"))
    versions.take(metadata(odd, "odd"))
    versions.take(metadata("5", "missing"))
    assert versions.list_differences([metadata(odd, "listed"), metadata("9", "odd")], odd) == {}
