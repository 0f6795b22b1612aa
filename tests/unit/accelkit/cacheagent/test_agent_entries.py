"""Entries of namespaces: which pods may read which files by the path of their volume."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_worlds import MOUNT, A, B, C, desired, folder, link, pod, stored, world

from accelkit.cacheagent.disk.entries import NamespaceEntries
from accelkit.cacheagent.disk.store import Store
from accelkit.cacheagent.planning.desired_caches import Refusal
from accelkit.cacheagent.planning.plan import make_plan
from accelkit.cacheagent.planning.world import WITHDRAWN
from accelkit.errors import ConfigurationError
from accelkit.gkm import names

BOTH = {folder(A): stored(), folder(B): stored()}
HERE = ("team", folder(A))
FOLLOWED = ("team", link())
REFUSED = Refusal("NoSignatures", "no signature is attached")


def entries_of(*caches, **changes):
    return make_plan(world(*caches, **{"stored": BOTH, **changes})).entries


def test_served_cache_has_entries_only_in_its_namespace():
    assert entries_of(desired()) == {HERE, FOLLOWED}
    assert entries_of(desired(namespaces=("team",)), desired(B, "x/y", namespaces=("x",))) == {
        HERE,
        FOLLOWED,
        ("x", folder(B)),
        ("x", link("x/y")),
    }


def test_cluster_cache_has_entries_in_its_workload_namespaces():
    bad = ("..", "", "a/b", "A", "-a", "a" * 64, ".", "a\n")
    of = desired(key="/add", namespaces=("one", "two", *bad))
    assert entries_of(of) == {(each, name) for each in ("one", "two") for name in (folder(A), link("/add"))}


@pytest.mark.parametrize(
    "changes",
    [
        # The status may name the digest of another tenant.
        {"stored": {folder(A): stored(policies="sha/other/q.io/other/add")}},
        {"stored": {folder(A): stored(path="/elsewhere")}},
        {"stored": {}},
    ],
)
def test_unverified_files_get_no_entry(changes):
    assert entries_of(desired(), **changes) == set()


@pytest.mark.parametrize("changes", [{"verified": None}, {"verified": False, "refusal": REFUSED}, {"delivered": False}])
def test_a_cache_without_a_verdict_gets_no_entry(changes):
    assert entries_of(desired(**changes)) == set()
    assert entries_of(desired(former_digests=(B,), **changes)) == set()


def test_entry_of_former_digest_is_kept_but_never_created():
    of = desired(B, former_digests=(A, C))
    known = {("team", folder(B)), FOLLOWED}
    assert entries_of(of) == known
    kept = {HERE, ("team", folder(C)), ("x", folder(A))}
    assert entries_of(of, entries=frozenset(kept)) == known | {HERE, ("team", folder(C))}
    assert entries_of(desired(B), entries=frozenset(kept)) == known


def test_entries_of_current_digest_are_kept_without_new_verdict():
    present = frozenset({HERE, FOLLOWED})
    links = {link(): folder(A)}
    for of in (desired(verified=None), desired(verified=False, refusal=REFUSED)):
        assert entries_of(of, entries=present, links=links) == present
    # The link says that the agent served the digest before.
    assert entries_of(desired(verified=None), links=links) == present
    assert entries_of(desired(verified=False, refusal=REFUSED), links=links) == {FOLLOWED}
    assert entries_of(desired(verified=None), links={link(): WITHDRAWN}) == {FOLLOWED}


def test_entry_is_kept_for_pods_of_its_namespace_that_may_use_files():
    present = frozenset({HERE, ("x", folder(A)), FOLLOWED})
    uses = {"uid-p": {"team/add": frozenset({folder(A)})}}
    assert entries_of(pods=(pod("p"),), uses=uses, entries=present) == {HERE}
    assert entries_of(uses=uses, entries=present) == set()
    # A use adds no entry.
    assert entries_of(pods=(pod("p"),), uses=uses) == set()


def test_entries_of_unreadable_caches_are_kept():
    present = frozenset({HERE, ("x", folder(A)), FOLLOWED, ("x", link("x/y")), ("x", link("/all"))})
    links = dict.fromkeys((link(), link("x/y"), link("/all")), folder(A))
    given = {"entries": present, "links": links}
    assert entries_of(**given, unreadable=frozenset({"x/y"})) == {("x", folder(A)), ("x", link("x/y"))}
    assert entries_of(**given, unreadable=frozenset({"/all"})) == {
        HERE,
        ("x", folder(A)),
        ("x", link("/all")),
    }


@pytest.fixture
def entries(tmp_path: Path) -> NamespaceEntries:
    made = NamespaceEntries(tmp_path)
    made.read()
    return made


def opened(root: Path) -> NamespaceEntries:
    made = NamespaceEntries(root)
    made.read()
    return made


def fill(root: Path) -> None:
    """Files of A, and the link of a cache on them."""
    (root / folder(A) / "cache").mkdir(parents=True)
    (root / folder(A) / "cache" / "kernel").write_text("a")
    (root / "claims").mkdir(exist_ok=True)
    (root / "claims" / link()).symlink_to(f"../{folder(A)}/cache")


def test_entries_point_to_files_at_volume_paths(tmp_path, entries):
    fill(tmp_path)
    entries.bring(frozenset({HERE, FOLLOWED}))
    for digest in ("", A):
        path = Path(names.build_volume_path("team/add", "team", digest, MOUNT, tmp_path))
        assert path.is_symlink()
        assert not path.readlink().is_absolute()
        assert (path / "kernel").read_text() == "a"
    assert opened(tmp_path).present == entries.present == {HERE, FOLLOWED}
    # A moved link needs no change of its entry.
    (tmp_path / "claims" / link()).unlink()
    (tmp_path / "claims" / link()).symlink_to(WITHDRAWN)
    followed = Path(names.build_volume_path("team/add", "team", root=tmp_path))
    assert followed.is_symlink()
    assert not followed.exists()


def test_namespace_folder_is_deleted_after_its_last_entry(tmp_path, entries):
    entries.bring(frozenset({HERE, FOLLOWED}))
    entries.bring(frozenset({HERE}))
    assert {each.name for each in (tmp_path / "namespaces" / "team").iterdir()} == {folder(A)}
    again = opened(tmp_path)
    again.bring(frozenset())
    assert list((tmp_path / "namespaces").iterdir()) == []
    again.bring(frozenset())


@pytest.mark.parametrize("target", ["../../claims", "/etc", f"../../{folder(B)}/cache", f"../x/{folder(A)}"])
def test_entry_with_wrong_target_is_replaced_or_deleted(tmp_path, target):
    path = tmp_path / "namespaces" / "team" / folder(A)
    for wanted in (frozenset({HERE}), frozenset()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)
        made = opened(tmp_path)
        assert made.present == set()
        made.bring(wanted)
        assert path.is_symlink() is bool(wanted)
        assert not wanted or str(path.readlink()) == f"../../{folder(A)}/cache"


def test_files_links_and_empty_folders_are_replaced_by_entries(tmp_path):
    base = tmp_path / "namespaces"
    (tmp_path / "elsewhere" / "team").mkdir(parents=True)
    base.symlink_to("elsewhere")
    fill(tmp_path)
    (tmp_path / "x").mkdir()
    made = opened(tmp_path)
    assert not base.is_symlink()
    # The namespace as a link and as a file, and the entry as a file and as an empty folder.
    (base / "one").symlink_to("../x")
    (base / "two").write_text("")
    for namespace in ("three", "four"):
        (base / namespace).mkdir()
    (base / "three" / folder(A)).write_text("")
    (base / "four" / folder(A)).mkdir()
    (base / "five").mkdir()
    (base / "five" / f".{folder(A)}.new").symlink_to("left")
    wanted = frozenset((each, folder(A)) for each in ("one", "two", "three", "four", "five"))
    made.bring(wanted)
    assert opened(tmp_path).present == wanted
    assert all((base.joinpath(*each) / "kernel").is_file() for each in wanted)
    assert list((tmp_path / "x").iterdir()) == []


def test_link_between_namespaces_is_deleted_at_start(tmp_path, entries):
    entries.bring(frozenset({HERE}))
    (tmp_path / "namespaces" / "thief").symlink_to("team")
    (tmp_path / "namespaces" / "team" / f".{link()}.new").symlink_to("left")
    assert opened(tmp_path).present == {HERE}
    assert {each.name for each in (tmp_path / "namespaces").iterdir()} == {"team"}
    assert {each.name for each in (tmp_path / "namespaces" / "team").iterdir()} == {folder(A)}


def test_folder_with_content_is_kept_and_blocks_no_other_entry(tmp_path, entries, caplog):
    path = tmp_path / "namespaces" / "a" / folder(A)
    path.mkdir(parents=True)
    (path / "data").touch()
    for _ in range(2):
        entries.bring(frozenset({("a", folder(A)), HERE}))
    (told,) = [each.message for each in caplog.records if each.levelname == "WARNING"]
    cause = f"cannot create {path}: Directory not empty"
    assert told == f"cannot update namespace entries, so pods cannot mount some caches: {cause}"
    assert (path / "data").exists()
    assert entries.present == {HERE}
    (path / "data").unlink()
    entries.bring(frozenset({("a", folder(A)), HERE}))
    assert entries.present == {("a", folder(A)), HERE}


async def test_store_reads_entries_when_opened(tmp_path, entries):
    entries.bring(frozenset({HERE}))
    store = Store(tmp_path)
    await store.open()
    assert store.entries.present == {HERE}
    # Another store has no rights on the folder.
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError):
        await Store(tmp_path / "file").open()
