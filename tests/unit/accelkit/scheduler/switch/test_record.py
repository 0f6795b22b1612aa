import pytest

from accelkit.errors import ConfigurationError
from accelkit.scheduler.switch.record import (
    Record,
    build_original_path,
    build_record_path,
    compute_sha256,
    decode_record,
    encode_record,
)

PATH = "/etc/kubernetes/manifests/kube-scheduler.yaml"
RECORD = Record(
    path=PATH,
    existed=True,
    mode="0600",
    sha256=compute_sha256(b"a"),
    written_sha256=compute_sha256(b"b"),
    files=("/x",),
)


def test_record_is_unchanged_by_encoding_and_decoding():
    assert decode_record(encode_record(RECORD), "r.json") == RECORD


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "cannot read the record"),
        (b"\xff", "cannot read the record"),
        (encode_record(RECORD).replace(b": 1\n", b": 2\n"), "version 2"),
    ],
)
def test_invalid_record_is_an_error(content, message):
    with pytest.raises(ConfigurationError, match=message):
        decode_record(content, "r.json")


def test_records_are_stored_outside_manifest_folder():
    assert build_record_path("/var/lib/accelkit", PATH).startswith("/var/lib/accelkit/kube-scheduler.yaml.")
    assert build_record_path("/b", PATH) != build_record_path("/b", "/other/kube-scheduler.yaml")
    assert build_original_path("/b", "ab") == "/b/ab.original"
    with pytest.raises(ConfigurationError, match="is the folder of"):
        build_record_path("/etc/kubernetes/manifests/", PATH)
