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


def test_child_paths_move_to_folder_and_keep_file_names() -> None:
    document = _group({"k.ttir": "/opt/build/.triton/cache/KEY/k.ttir", "k.cubin": "relative/k.cubin"})
    assert _moved(document) == {"k.ttir": f"{KEY}/k.ttir", "k.cubin": f"{KEY}/k.cubin"}


def test_relocation_is_idempotent() -> None:
    once = relocate(_group({"k.json": "/a/k.json"}), folder_in_mount=KEY)
    assert relocate(once, folder_in_mount=KEY) == once


def test_group_file_with_names_only_is_unchanged() -> None:
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
def test_invalid_child_paths_are_rejected(children: object) -> None:
    with pytest.raises(CacheError, match="group file"):
        relocate(_group(children), folder_in_mount=KEY)


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"child_paths": {}, "more": 1}', b"\xff", b"[" * 100_000])
def test_group_file_with_other_structure_is_rejected(document: bytes) -> None:
    with pytest.raises(CacheError, match="not have a format that Triton writes"):
        relocate(document, folder_in_mount=KEY)


def test_group_file_over_size_limit_is_rejected() -> None:
    with pytest.raises(CacheError, match="exceeds the limit"):
        relocate(bytes(1024 * 1024 + 1), folder_in_mount=KEY)


@pytest.mark.parametrize("folder", ["cache/KEY", "", "/cache/../etc"])
def test_mount_path_that_is_not_absolute_is_rejected(folder: str) -> None:
    with pytest.raises(CacheError, match="not an absolute path"):
        relocate(_group({}), folder_in_mount=folder)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("__grp__k.json", True), ("k.json", False), ("__grp__k.txt", False), ("x__grp__k.json", False)],
)
def test_group_file_is_recognized_by_name(name: str, expected: bool) -> None:
    assert is_group_file(name) is expected


@given(st.dictionaries(st.text(), st.text()))
def test_relocated_children_never_leave_folder(children: dict[str, str]) -> None:
    try:
        moved = _moved(_group(children))
    except CacheError:
        return
    assert all(Path(path).parent == Path(KEY) for path in moved.values())


@pytest.mark.parametrize("name", ["vector-add-cache", "vector-add-cache-rocm", "vllm-cache"])
def test_relocated_paths_of_real_group_files_exist(name: str) -> None:
    groups = [path for path in real_cache(name).rglob("*.json") if is_group_file(path.name)]
    assert groups
    for group in groups:
        moved = json.loads(relocate(group.read_bytes(), folder_in_mount=str(group.parent)))
        assert all(Path(path).is_file() for path in moved["child_paths"].values())
