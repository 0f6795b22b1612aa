"""Whatever an archive holds: nothing is written outside, and nothing but CacheError is raised."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from hand_made_archives import (
    GZIP,
    PLAIN,
    ZSTD,
    archive,
    extended,
    file,
    folder,
    header,
    link,
    long_name,
    packed,
    padded,
    record,
)
from hypothesis import example, given
from hypothesis import strategies as st

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction.archive import ArchiveEntry, Pieces, read_entries
from accelkit.kernelcache.extraction.rules import Limits, normalize_path
from accelkit.kernelcache.extraction.unpack import Allowance, unpack

TOP = "io.triton.cache"
LIMITS = Limits(total_bytes=1 << 16, file_bytes=1 << 15, files=40)
INSIDE = {"target", "target/layer"}

PARTS = st.one_of(
    st.sampled_from(["a", "b", "..", ".", "", "K", TOP, ".wh.a", "\\", "\n", "ö", "x" * 60, "\0"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
)
NAMES = st.builds(
    lambda prefix, parts: prefix + "/".join(parts),
    st.sampled_from(["", "/", "./", TOP + "/", TOP + "/K/", "../"]),
    st.lists(PARTS, max_size=5),
)
SHORT = NAMES.map(lambda name: name.encode()[:100])
NUMBERS = st.one_of(st.integers(-(1 << 70), 1 << 70).map(str), st.text(max_size=5))


def sized(name: bytes, size: int | bytes, content: bytes, kind: bytes, mode: int) -> bytes:
    return header(name, size, kind=kind, mode=mode) + padded(content)


ENTRIES = st.one_of(
    st.builds(file, SHORT, st.binary(max_size=2000), mode=st.integers(0, 0o7777)),
    st.builds(folder, SHORT, mode=st.integers(0, 0o7777)),
    st.builds(
        link, NAMES.map(lambda name: name[:40]), NAMES.map(lambda name: name[:40]), kind=st.sampled_from([b"1", b"2"])
    ),
    st.builds(
        sized,
        SHORT,
        st.one_of(st.integers(0, 1 << 33), st.binary(min_size=12, max_size=12)),
        st.binary(max_size=1000),
        st.sampled_from([bytes([number]) for number in b"01234567LKSxgXZ"]) | st.just(b"\0"),
        st.integers(0, 0o7777),
    ),
    st.builds(lambda name: long_name(name.encode()), NAMES),
    st.builds(lambda name: extended(record(b"path", name.encode())), NAMES),
    st.builds(lambda size: extended(record(b"size", size.encode())), NUMBERS),
    st.builds(extended, st.binary(max_size=60), kind=st.sampled_from([b"x", b"g"])),
)


def tree(root: Path) -> dict[str, str]:
    """Everything below a folder, links not followed, with its kind and mode."""
    found = {}
    for where, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(where) / name
            found[path.relative_to(root).as_posix()] = stat.filemode(path.lstat().st_mode)
    return found


def checked(layer: bytes, media_type: str) -> dict[str, str] | None:
    """Unpack a layer, and return what was written; None where it was refused."""
    with tempfile.TemporaryDirectory() as around:
        target = Path(around) / "target" / "layer"
        target.mkdir(parents=True)
        refusal = None
        try:
            unpack([layer], media_type, target, Allowance(LIMITS), (TOP,))
        except CacheError as exc:
            refusal = exc.message
        written = {name: mode for name, mode in tree(Path(around)).items() if name not in INSIDE}
        assert all(name.startswith(f"target/layer/{TOP}") for name in written)
        assert set(written.values()) <= {"-rw-r--r--", "drwxr-xr-x"}
        assert len(written) <= LIMITS.files
        sizes = [path.stat().st_size for path in target.rglob("*") if path.is_file()]
        assert sum(sizes) <= LIMITS.total_bytes
        assert refusal is None or refusal.isprintable()
        return {name.removeprefix("target/layer/"): mode for name, mode in written.items()} if refusal is None else None


@given(parts=st.lists(ENTRIES, max_size=8), media_type=st.sampled_from([GZIP, ZSTD, PLAIN]))
@example(parts=[link(f"{TOP}/K", "/tmp"), file(f"{TOP}/K/x")], media_type=PLAIN)
def test_no_archive_writes_outside_the_target(parts: list[bytes], media_type: str) -> None:
    checked(packed(archive(*parts), media_type), media_type)


VALID = archive(
    folder(TOP),
    file(f"{TOP}/K/a.json", b"{}"),
    extended({"path": f"{TOP}/{'n' * 150}", "size": "5"}),
    file("short", b"12345"),
    long_name(f"{TOP}/{'l' * 150}".encode()),
    file("short", bytes(700)),
)


@given(
    changes=st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), max_size=6),
    cut=st.integers(0, len(VALID)) | st.none(),
    inserted=st.tuples(st.integers(0, len(VALID)), st.binary(max_size=20)),
    media_type=st.sampled_from([GZIP, ZSTD, PLAIN]),
)
def test_damaged_archive_stays_within_limits(
    changes: list[tuple[int, int]], cut: int | None, inserted: tuple[int, bytes], media_type: str
) -> None:
    damaged = bytearray(VALID)
    for position, value in changes:
        damaged[position] = value
    damaged[inserted[0] : inserted[0]] = inserted[1]
    checked(packed(bytes(damaged[:cut]), media_type), media_type)


@given(
    media_type=st.sampled_from([GZIP, ZSTD]),
    changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_damaged_compressed_data_stays_within_limits(media_type: str, changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(packed(VALID, media_type))
    for position, value in changes:
        damaged[position % len(damaged)] = value
    checked(bytes(damaged), media_type)


@given(layer=st.binary(max_size=3000), media_type=st.sampled_from([GZIP, ZSTD, PLAIN]))
def test_random_bytes_are_refused(layer: bytes, media_type: str) -> None:
    assert checked(layer, media_type) is None


PLAIN_PARTS = st.text(st.sampled_from("abcö-_. "), min_size=1, max_size=8).filter(lambda part: part.strip(". ") == part)


@given(
    st.dictionaries(
        st.lists(PLAIN_PARTS, min_size=1, max_size=3).map(
            lambda parts: "/".join(["d" + part for part in parts[:-1]] + ["f" + parts[-1]])
        ),
        st.binary(max_size=1500),
        max_size=6,
    )
)
def test_valid_archive_is_extracted_unchanged(files: dict[str, bytes]) -> None:
    layer = archive(*(file(f"{TOP}/{name}", body) for name, body in files.items()))
    with tempfile.TemporaryDirectory() as target:
        unpack([layer], PLAIN, Path(target), Allowance(LIMITS), (TOP,))
        found = {
            path.relative_to(Path(target) / TOP).as_posix(): path.read_bytes()
            for path in Path(target).rglob("*")
            if path.is_file()
        }
    assert found == files


@given(name=NAMES | st.text(max_size=30))
def test_normalized_path_is_below_the_root(name: str) -> None:
    try:
        path = normalize_path(name)
    except CacheError:
        return
    joined = os.path.normpath(os.path.join("/root", path))  # noqa: PTH118 - as the kernel reads it
    assert joined == ("/root/" + path).rstrip("/")


@given(
    contents=st.lists(st.binary(max_size=1200), max_size=4),
    sizes=st.lists(st.integers(1, 700), min_size=1, max_size=4),
)
def test_archive_entries_are_read_from_chunks_of_any_size(contents: list[bytes], sizes: list[int]) -> None:
    whole = archive(*(file(f"f{number}", content) for number, content in enumerate(contents)))

    def cut():
        start = turn = 0
        while start < len(whole):
            yield whole[start : start + sizes[turn % len(sizes)]]
            start, turn = start + sizes[turn % len(sizes)], turn + 1

    pieces = Pieces(cut())
    found = [(entry, pieces.read_exactly(entry.size)) for entry in read_entries(pieces)]
    assert found == [
        (ArchiveEntry(f"f{number}", len(content), is_folder=False), content) for number, content in enumerate(contents)
    ]
