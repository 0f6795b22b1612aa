from __future__ import annotations

import errno
import json
import os
import signal
import threading

import pytest
from click.testing import CliRunner
from support.waiting import poll_until

from accelkit.cli import main
from accelkit.enablement.work.device_patterns import find_wrong_node, find_wrong_variable, list_card_nodes
from accelkit.enablement.work.share_check import devices as devices_module
from accelkit.enablement.work.share_check.cpu import add_on_cpu, count_elements, sum_of_numbers
from accelkit.enablement.work.share_check.devices import open_devices
from accelkit.enablement.work.share_check.evidence import (
    MAX_MESSAGE_BYTES,
    ShareEvidence,
    WorkError,
    decode_evidence,
    encode_evidence,
)
from accelkit.enablement.work.share_check.work import check_share, run_with_deadline
from accelkit.errors import ServiceError
from accelkit.model.card import Card
from accelkit.vendors.profiles import load_profiles

PROFILES = load_profiles()
GIB = 2**30
SHARE = {"ACCELKIT_MEMORY_BYTES": str(GIB)}


def check(environ, folder, driver=None):
    return check_share(environ, folder, PROFILES.values(), load=lambda: driver)


def test_share_of_simulated_card_is_tested_on_cpu(tmp_path):
    found = check({**SHARE, "ACCELKIT_VISIBLE_DEVICES": "sim-0", "HOME": "/"}, tmp_path)
    assert (found.passed, found.reason, found.memory_bytes) == (True, "", GIB)
    assert found.variables == {"ACCELKIT_VISIBLE_DEVICES": "sim-0"}
    assert "added on the processor" in found.work


@pytest.mark.parametrize("text", ["", "none", "0", "-1", "1e9"])
def test_invalid_memory_limit_fails(tmp_path, text):
    found = check({"ACCELKIT_MEMORY_BYTES": text}, tmp_path)
    assert (found.passed, found.reason, found.memory_bytes) == (False, "WrongLimit", None)


def test_device_nodes_are_found_by_vendor_profiles_and_opened(tmp_path):
    for name in ("nvidia0", "nvidia12", "nvidiactl", "null", "dri/renderD128", "accel/accel0", "nvidia-uvm", "nvidiax"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = check(SHARE, tmp_path)
    assert {"/dev/nvidia0", "/dev/nvidia12", "/dev/dri/renderD128"} <= set(found.device_nodes)
    assert not {"/dev/nvidiactl", "/dev/null", "/dev/nvidiax"} & set(found.device_nodes)
    assert found.passed


def test_missing_device_fails(tmp_path):
    (tmp_path / "nvidia0").symlink_to(tmp_path / "nowhere")
    found = check(SHARE, tmp_path)
    assert (found.reason, found.passed) == ("DeviceNotOpened", False)
    assert found.detail.startswith("cannot open /dev/nvidia0: ")


@pytest.mark.parametrize(
    ("code", "closed"), [(errno.EACCES, True), (errno.EBUSY, True), (errno.EPERM, False), (errno.ENXIO, False)]
)
def test_busy_or_inaccessible_device_is_skipped_and_other_errors_fail(tmp_path, monkeypatch, code, closed):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(devices_module.os, "open", refuse)
    if closed:
        assert open_devices(tmp_path, ["/dev/kfd"]) == ("/dev/kfd",)
    else:
        with pytest.raises(WorkError) as refused:
            open_devices(tmp_path, ["/dev/kfd"])
        assert refused.value.reason == "DeviceNotOpened"


@pytest.mark.parametrize("memory_bytes", [1, 2**20, GIB, 2**50])
def test_vector_size_is_bounded_and_fits_share(memory_bytes):
    count = count_elements(memory_bytes)
    assert 1024 <= count <= 2**22
    if memory_bytes > 2**16:
        assert 12 * count <= memory_bytes // 4
    assert "added" in add_on_cpu(memory_bytes)


@pytest.mark.parametrize("count", [0, 1, 4095, 4096, 4097, 10000])
def test_sum_of_numbers_matches_explicit_sum(count):
    assert sum_of_numbers(count) == sum(number % 4096 for number in range(count))


CARD = Card("GPU-1", "nvidia", "m", GIB, index=0, minor=3)


def test_wrong_card_is_detected_by_environment_variables():
    nvidia, enflame, amd = PROFILES["nvidia"], PROFILES["enflame"], PROFILES["amd"]
    assert find_wrong_variable(nvidia, CARD, {"NVIDIA_VISIBLE_DEVICES": "GPU-1"}) == ""
    assert find_wrong_variable(nvidia, CARD, {"NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2"}) != ""
    assert find_wrong_variable(enflame, CARD, {"ENFLAME_VISIBLE_DEVICES": "3"}) == ""
    assert find_wrong_variable(enflame, CARD, {"ENFLAME_VISIBLE_DEVICES": "0"}) != ""
    # By a name of the vendor's tools, which nobody knows here.
    assert find_wrong_variable(amd, CARD, {"ROCR_VISIBLE_DEVICES": "GPU-x"}) == ""


def test_wrong_card_is_detected_by_device_nodes():
    amd, simulated, enflame = PROFILES["amd"], PROFILES["simulated"], PROFILES["enflame"]
    assert find_wrong_node(simulated, CARD, []) == ""
    # A file of the host may have renamed them.
    assert find_wrong_node(enflame, CARD, ["/dev/gcu7"]) == ""
    assert find_wrong_node(amd, CARD, ["/dev/dri/card3", "/dev/dri/renderD131"]) == ""
    assert "2 device nodes" in find_wrong_node(amd, CARD, ["/dev/dri/card3", "/dev/dri/renderD1", "/dev/dri/renderD2"])
    assert "lacks /dev/dri/card3" in find_wrong_node(amd, CARD, ["/dev/dri/card0", "/dev/dri/renderD131"])


def test_missing_device_folder_contains_no_card_nodes(tmp_path):
    assert list_card_nodes(tmp_path / "absent", PROFILES.values()) == ()


def test_evidence_round_trips_and_fits_termination_message():
    long = "\N{SNOWMAN}" * 5000
    names = tuple(f"/dev/{long}{number}" for number in range(100))
    evidence = ShareEvidence(
        passed=False,
        reason="CudaFailed",
        detail=long,
        variables={"A": long},
        device_nodes=names,
        closed=names,
        work=long,
    )
    line = encode_evidence(evidence)
    assert len(line) <= MAX_MESSAGE_BYTES
    assert decode_evidence(line.decode()).reason == "CudaFailed"
    plain = ShareEvidence(
        passed=True, memory_bytes=7, variables={"A": "b"}, identities=("GPU-1",), work="w", seconds=1.5
    )
    assert decode_evidence(f"warning\n{encode_evidence(plain).decode()}\n\n") == plain


@pytest.mark.parametrize("text", ["", "\n", "[]", "{}", '{"version": "1"}', "[" * 5000, '{"version": 1}', "\ud800"])
def test_invalid_evidence_is_rejected(text):
    with pytest.raises(ServiceError):
        decode_evidence(text)


def test_work_without_end_is_aborted_at_deadline():
    release = threading.Event()
    found = run_with_deadline(lambda: release.wait(30) and None, 0.02)
    release.set()
    assert (found.passed, found.reason) == (False, "TimedOut")


def test_internal_error_is_reported_as_evidence():
    found = run_with_deadline(lambda: 1 / 0, 5)
    assert (found.passed, found.reason) == (False, "WorkFailed")
    assert "ZeroDivisionError" in found.detail


@pytest.mark.parametrize(("limit", "code"), [(str(GIB), 0), ("", 1)])
def test_command_prints_and_writes_one_line_of_evidence(tmp_path, limit, code):
    message = tmp_path / "message"
    arguments = ["share-check", "--devices", str(tmp_path), "--evidence", str(message)]
    done = CliRunner().invoke(main, arguments, env={"ACCELKIT_MEMORY_BYTES": limit})
    assert done.exit_code == code
    [line] = done.stdout.splitlines()
    assert json.loads(line)["passed"] is (code == 0)
    assert message.read_text() == line


def test_invalid_usage_exits_with_2(tmp_path):
    assert CliRunner().invoke(main, ["share-check", "--seconds", "0"]).exit_code == 2
    assert CliRunner().invoke(main, ["share-check", "--devices", str(tmp_path / "x" / "y"), "more"]).exit_code == 2


def test_hold_ends_after_its_duration_or_at_sigterm():
    assert CliRunner().invoke(main, ["share-check", "--hold", "0.01"]).exit_code == 0
    before = signal.getsignal(signal.SIGTERM)

    def end_it() -> None:
        # Until it holds, the signal would end the tests.
        poll_until(lambda: signal.getsignal(signal.SIGTERM) is not before)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=end_it, daemon=True)
    thread.start()
    # Longer than the test may take.
    assert CliRunner().invoke(main, ["share-check", "--hold", "3600"]).exit_code == 0
    thread.join()


def test_driver_library_is_not_loaded_without_card_of_its_vendor(tmp_path):
    found = check_share(SHARE, tmp_path, PROFILES.values(), load=lambda: pytest.fail("it was looked for"))
    assert found.passed
