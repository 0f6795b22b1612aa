"""The file that the scan leaves is read as if a stranger had written it."""

import os

import pytest

from accelkit.cacheagent.scanning.document import CopyReport, read_missed, write_document
from accelkit.gkm.names import name_private_copy

UID = "0a1b2c3d-0000-4000-8000-000000000001"
VOLUME = name_private_copy("kernels")
GOOD = CopyReport(pod=UID, volume=VOLUME, triton=2, other=1, new_folders=1, bounded=True)


def test_written_scan_document_is_read_back(tmp_path):
    write_document(tmp_path, [GOOD], 3, clock=lambda: 50.0)
    (key, found), *more = read_missed(tmp_path, clock=lambda: 60.0).items()
    assert (key, found.files, found.new_folders, found.bounded, more) == ((UID, VOLUME), 3, 1, True, [])


@pytest.mark.parametrize("now", [49.0, 50.0 + 121, 1e9])
def test_scan_document_with_invalid_time_is_ignored(tmp_path, now):
    write_document(tmp_path, [GOOD], 0, clock=lambda: 50.0)
    assert read_missed(tmp_path, clock=lambda: now) == {}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b'{"at": 1e999, "copies": []}',
        b'{"at": 50, "copies": [], "version": 2}',
        b'{"at": 50, "copies": [], "more": 1}',
        b'{"at": 50, "copies": [{"pod": "../../x", "volume": "v"}]}',
        b'{"at": 50, "copies": [{"pod": "' + UID.encode() + b'", "volume": "v", "triton": -1}]}',
        b'{"at": 50, "copies": [{"pod": "' + UID.encode() + b'", "volume": "v", "triton": 99999999999}]}',
        b'{"at": 50, "copies": [' + b",".join([b'{"pod": "%b", "volume": "v"}' % UID.encode()] * 1001) + b"]}",
        b"[" * 5000,
        b" " * ((1 << 20) + 1),
        b'{"at": 50, "copies": "\xff"}',
    ],
)
def test_malformed_scan_document_is_ignored(tmp_path, text):
    (tmp_path / "copies.json").write_bytes(text)
    assert read_missed(tmp_path, clock=lambda: 50.0) == {}


@pytest.mark.parametrize("what", ["nothing", "link", "fifo", "folder"])
def test_scan_document_that_is_not_regular_file_is_ignored(tmp_path, what):
    path = tmp_path / "copies.json"
    if what == "link":
        write_document(tmp_path, [GOOD], 0, clock=lambda: 50.0)
        path.rename(tmp_path / "real.json")
        path.symlink_to("real.json")
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    assert read_missed(tmp_path, clock=lambda: 50.0) == {}
