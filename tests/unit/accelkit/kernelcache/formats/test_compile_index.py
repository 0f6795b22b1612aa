"""vLLM's list of compiled pieces names them where workloads see them, and is otherwise kept to the letter."""

from __future__ import annotations

import ast
import posixpath
import pprint

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_cache_trees import real_cache

from accelkit.errors import CacheError
from accelkit.kernelcache.formats.relocation.compile_index import MAX_INDEX_BYTES, relocate_index

PART = "torch_compile_cache/edf531ca35/rank_0_0/backbone"
PIECE = f"{PART}/artifact_compile_range_1_2048_subgraph_0"
HELD = {PIECE, f"{PART}/cafe.py"}


def written(cache: dict) -> bytes:
    return pprint.PrettyPrinter(indent=4).pformat(cache).encode()


def relocated(document: bytes, *, held: set[str] | None = None, kept: str = "/nowhere") -> bytes:
    def locate(path: str) -> str | None:
        if path.startswith("/"):
            return path if path.startswith(f"{kept}/") else None
        return posixpath.join("/cache", path)

    return relocate_index(document, holds=(HELD if held is None else held).__contains__, locate=locate)


def test_artifact_paths_are_relocated_to_mount_path() -> None:
    key = ((1, 2048), 0, "inductor_standalone")
    document = written({key: (PIECE.rsplit("/", 1)[-1], f"/home/ec2-user/.cache/vllm/{PIECE}")})
    assert ast.literal_eval(relocated(document).decode()) == {key: (PIECE.rsplit("/", 1)[-1], f"/cache/{PIECE}")}


def test_relocation_changes_only_paths() -> None:
    document = (
        f"{{   (None, 0, 'é'): (   'hash',\n  '/a/b/{PIECE}'),  # {PIECE}\n"
        f'    (None, 1, "x"): ["/a/b/{PIECE}", None, 1.5, b\'/raw\', -3],\n'
        f"    'ü': ('/a/'\n 'b/{PIECE}'), }}\n"
    )
    wanted = document.replace(f'"/a/b/{PIECE}"', f"'/a/b/{PIECE}'").replace(f"/a/'\n 'b/{PIECE}", f"/a/b/{PIECE}")
    assert relocated(document.encode()) == wanted.replace("/a/b/", "/cache/").encode()


def test_index_with_correct_paths_is_unchanged() -> None:
    document = b'{1: ("/cache/' + PIECE.encode() + b"\", '')}"
    assert relocated(document) == document


def test_longest_path_suffix_in_cache_is_used() -> None:
    document = written({0: ("h", "/build/a/x.py")})
    assert b"/cache/build/a/x.py" in relocated(document, held={"x.py", "a/x.py", "build/a/x.py"})
    assert b"'/cache/a/x.py'" in relocated(document, held={"x.py", "a/x.py"})


def test_paths_in_tree_mounted_at_original_path_are_unchanged() -> None:
    document = written({0: ("h", "/tmp/torchinductor_root/x.py")})
    assert relocated(document, kept="/tmp/torchinductor_root") == document


def test_path_missing_from_cache_is_rejected() -> None:
    with pytest.raises(CacheError, match=r"names /tmp/elsewhere\.py, which the cache does not contain") as caught:
        relocated(written({0: ("h", "/tmp/elsewhere.py")}))
    assert "whole cache root" in (caught.value.next_step or "")


@pytest.mark.parametrize("path", ["/a/../etc/passwd", "/a//b", "/", "/a/./b", "/a\nb", "/" + "x" * 5000])
def test_non_canonical_path_is_rejected(path: str) -> None:
    with pytest.raises(CacheError, match="not a plain path"):
        relocated(written({0: ("h", path)}))


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{1: print('x')}",
        b"__import__('os').system('true')",
        b"{1: f'/a{2}'}",
        b"{1: ('/a' for a in b)}",
        b"{**{}}",
        b"{1: 2}; 3",
        b"{1:\r 2}",
        b"\xff",
        b"{1: '\\ud800'}x",
        b"(" * 100_000,
        b"-" * 100_000 + b"1",
        b"{" + b"1:{" * 5000,
    ],
)
def test_index_with_invalid_format_is_rejected(document: bytes) -> None:
    with pytest.raises(CacheError, match=r"vllm_compile_cache\.py"):
        relocated(document)


def test_index_over_size_limit_is_rejected() -> None:
    with pytest.raises(CacheError, match="exceeds the limit"):
        relocated(b"{}" + b" " * MAX_INDEX_BYTES)


@given(st.dictionaries(st.tuples(st.integers(), st.text()), st.tuples(st.text(), st.floats(-1e9, 1e9))))
def test_relocation_preserves_value_of_any_literal(cache: dict) -> None:
    document = written(cache)
    try:
        after = relocated(document)
    except CacheError:
        assert any(text.startswith("/") for text, _ in cache.values()) or any(
            letter in document.decode() for letter in "\r\f\0"
        )
        return
    assert ast.literal_eval(after.decode()) == cache


def test_index_written_by_vllm_is_relocated_to_cache_root() -> None:
    root = real_cache("vllm-cache")
    folder = "torch_compile_cache/d4ec7c2a7d/rank_0_0"
    document = (root / folder / "vllm_compile_cache.py").read_bytes()
    after = relocate_index(
        document,
        holds=lambda within: (root / within).exists(),
        locate=lambda path: None if path.startswith("/") else str(root / path),
    )
    before, read = ast.literal_eval(document.decode()), ast.literal_eval(after.decode())
    assert list(read) == list(before)
    assert [value[0] for value in read.values()] == [value[0] for value in before.values()]
    assert all(value[1].startswith(str(root)) for value in read.values())
    moved = after.replace(str(root).encode(), b"/home/vllm/.cache/vllm")
    assert moved == document
