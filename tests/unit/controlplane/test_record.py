from __future__ import annotations

import pytest

from accelkit.controlplane.configuration import Extender, with_extender
from accelkit.controlplane.record import (
    Record,
    decode_record,
    digest,
    encode_record,
    original_of,
    original_path,
    record_path,
    restored,
)
from accelkit.errors import ConfigurationError

URL = "http://127.0.0.1:32766"
PATH = "/etc/kubernetes/scheduler.yaml"
PLAIN = b"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
WRITTEN = with_extender(PLAIN.decode(), Extender(url_prefix=URL)).encode()
RECORD = Record(path=PATH, mode="0600", uid=0, gid=0, sha256=digest(PLAIN), written_sha256=digest(WRITTEN))


def test_a_record_survives_its_file():
    assert decode_record(encode_record(RECORD), "r.json") == RECORD


@pytest.mark.parametrize(
    ("content", "message"), [(b"{", "cannot be read"), (encode_record(RECORD).replace(b": 1\n", b": 2\n"), "version 2")]
)
def test_an_unusable_record_is_an_error(content, message):
    with pytest.raises(ConfigurationError, match=message):
        decode_record(content, "r.json")


def test_records_lie_elsewhere_than_the_file():
    assert record_path("/var/lib/accelkit", PATH).startswith("/var/lib/accelkit/scheduler.yaml.")
    assert record_path("/b", PATH) != record_path("/b", "/other/scheduler.yaml")
    assert original_path("/b", "ab") == "/b/ab.original"
    with pytest.raises(ConfigurationError, match="is the folder of"):
        record_path("/etc/kubernetes/", PATH)


def test_the_first_change_records_the_file_as_it_is():
    assert original_of(PLAIN, None, URL) == PLAIN


def test_a_second_change_of_ours_keeps_the_first_original():
    assert original_of(WRITTEN, RECORD, URL) is None


def test_what_others_changed_since_is_the_new_original_without_our_entry():
    assert original_of(WRITTEN + b"profiles: []\n", RECORD, URL) == PLAIN + b"profiles: []\n"


def test_removal_restores_the_original_bytes():
    original = PLAIN
    assert restored(WRITTEN, RECORD, original, URL).content == PLAIN
    assert restored(WRITTEN, RECORD, original, URL).exact


@pytest.mark.parametrize("record", [RECORD, None])
def test_removal_keeps_what_others_changed(record):
    result = restored(WRITTEN + b"profiles: []\n", record, PLAIN, URL)
    assert result.content == PLAIN + b"profiles: []\n"
    assert not result.exact


def test_a_damaged_original_is_not_restored():
    with pytest.raises(ConfigurationError, match="damaged"):
        restored(WRITTEN, RECORD, PLAIN + b"x", URL)
