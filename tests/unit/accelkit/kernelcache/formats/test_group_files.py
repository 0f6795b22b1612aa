"""Triton's group files are moved to the path that the workload sees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_cache_trees import real_cache

from accelkit.errors import CacheError
from accelkit.kernelcache.formats.relocation.group_files import is_group_file, relocate

KEY = "/cache/KEY"


def _group(children: object) -> bytes:
    return json.dumps({"child_paths": children}).encode()


def _moved(document: bytes) -> dict[str, str]:
    return json.loads(relocate(document, folder_in_mount=KEY))["child_paths"]


def test_every_child_moves_to_the_folder_and_keeps_its_name() -> None:
    document = _group({"k.ttir": "/opt/build/.triton/cache/KEY/k.ttir", "k.cubin": "relative/k.cubin"})
    assert _moved(document) == {"k.ttir": f"{KEY}/k.ttir", "k.cubin": f"{KEY}/k.cubin"}


def test_moving_twice_is_moving_once() -> None:
    once = relocate(_group({"k.json": "/a/k.json"}), folder_in_mount=KEY)
    assert relocate(once, folder_in_mount=KEY) == once


def test_names_alone_are_right_anywhere() -> None:
    document = _group(["k.json", "k.ttir"])
    assert relocate(document, folder_in_mount=KEY) == document


@pytest.mark.parametrize(
    "children",
    [
        {"k.json": "/a/.."},
        {"k.json": "/a/"},
        {"k.json": ""},
        {"k.json": "/a/b\\c"},
        {"k.json": "/a/new\nline"},
        {"../k.json": "/a/k.json"},
        {"": "/a/k.json"},
        {"k.json": 7},
        {"k" * 256: "/a/k"},
        ["../k.json"],
        "k.json",
        None,
        {f"k{number}": "/a/k" for number in range(4097)},
    ],
)
def test_what_is_not_a_plain_list_of_files_is_refused(children: object) -> None:
    with pytest.raises(CacheError, match="group file"):
        relocate(_group(children), folder_in_mount=KEY)


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"child_paths": {}, "more": 1}', b"\xff", b"[" * 100_000])
def test_another_structure_is_refused(document: bytes) -> None:
    with pytest.raises(CacheError, match="not have a format that Triton writes"):
        relocate(document, folder_in_mount=KEY)


def test_a_huge_document_is_refused_unread() -> None:
    with pytest.raises(CacheError, match="exceeds the limit"):
        relocate(bytes(1024 * 1024 + 1), folder_in_mount=KEY)


@pytest.mark.parametrize("folder", ["cache/KEY", "", "/cache/../etc"])
def test_a_mount_that_is_not_absolute_is_refused(folder: str) -> None:
    with pytest.raises(CacheError, match="not an absolute path"):
        relocate(_group({}), folder_in_mount=folder)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("__grp__k.json", True), ("k.json", False), ("__grp__k.txt", False), ("x__grp__k.json", False)],
)
def test_group_files_are_known_by_name(name: str, expected: bool) -> None:
    assert is_group_file(name) is expected


@given(st.dictionaries(st.text(), st.text()))
def test_no_child_ever_leaves_the_folder(children: dict[str, str]) -> None:
    try:
        moved = _moved(_group(children))
    except CacheError:
        return
    assert all(Path(path).parent == Path(KEY) for path in moved.values())


@pytest.mark.parametrize("name", ["vector-add-cache", "vector-add-cache-rocm", "vllm-cache"])
def test_the_files_that_triton_named_are_there_after_the_move(name: str) -> None:
    groups = [path for path in real_cache(name).rglob("*.json") if is_group_file(path.name)]
    assert groups
    for group in groups:
        moved = json.loads(relocate(group.read_bytes(), folder_in_mount=str(group.parent)))
        assert all(Path(path).is_file() for path in moved["child_paths"].values())
