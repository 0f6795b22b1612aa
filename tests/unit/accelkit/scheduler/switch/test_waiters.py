import hashlib
import json
from types import SimpleNamespace

import pytest

from accelkit.errors import ServiceError
from accelkit.scheduler.switch import waiters
from accelkit.scheduler.switch.waiters import StateFile, SystemdService

MARKER = "--config=/etc/accelkit/scheduler.yaml"


class Machine:
    """A host with one service of systemd, as it is from one look to the next; the last look stays.

    Looks are `(ActiveState, words of the process)`, and time passes while somebody sleeps.
    """

    def __init__(self, *looks, fails=(), log="unknown flag\n"):
        self.looks, self.fails, self.log = list(looks), fails, log
        self.commands = []
        self.now = 0.0
        self._words = ()

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def run(self, command):
        self.commands.append(command)
        if any(word in self.fails for word in command):
            return 1, "it refuses\n"
        if command[0] == "journalctl":
            return 0, self.log
        if command[1] != "show":
            return 0, ""
        state, self._words = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return 0, f"MainPID=42\nActiveState={state}\n"

    def read(self, path):
        assert path == "/proc/42/cmdline"
        return "\0".join((*self._words, "")).encode()


@pytest.fixture
def on(monkeypatch):
    """Make a machine the one whose time the waiting goes by."""

    def make(*looks, **options):
        machine = Machine(*looks, **options)
        monkeypatch.setattr(waiters, "time", machine)
        return machine

    return make


OURS = ("active", ("kube-scheduler", MARKER))
FORMER = ("active", ("kube-scheduler",))
DEAD = ("failed", ())
SERVICE = SystemdService(timeout_seconds=10)


def test_wait_returns_when_service_runs_with_own_option(on):
    machine = on(("activating", ()), FORMER, OURS)
    SERVICE.wait(machine, "text", MARKER)
    assert machine.now == 3


def test_service_that_exits_because_of_its_options_is_reported_as_failed(on):
    machine = on(OURS, DEAD, OURS, DEAD)
    with pytest.raises(
        ServiceError, match=r"kube-scheduler\.service is failed after 10 s; the end of its log:\nunknown flag"
    ):
        SERVICE.wait(machine, "text", MARKER)
    assert 10 < machine.now <= 11


@pytest.mark.parametrize("words", [("kube-scheduler",), (f"{MARKER}.old",), ("--v=2", f"x{MARKER}")])
def test_service_running_without_own_option_is_reported(on, words):
    with pytest.raises(ServiceError, match=f"kube-scheduler.service runs without {MARKER} after 10 s"):
        SERVICE.wait(on(("active", words)), "text", MARKER)


@pytest.mark.parametrize(
    ("service", "marker"), [(SERVICE, None), (SystemdService("k3s.service", embedded=True, timeout_seconds=10), MARKER)]
)
def test_embedded_or_unmarked_service_only_has_to_run(on, service, marker):
    machine = on(FORMER)
    service.wait(machine, "text", marker)
    assert machine.commands == [["systemctl", "show", "--property=ActiveState,MainPID", service.unit]] * 2


def test_check_inspects_service_only_once(on):
    machine = on(FORMER)
    SERVICE.check(machine, None)
    assert machine.now == 0
    with pytest.raises(ServiceError, match=r"kube-scheduler\.service is failed, so its options were not changed"):
        SERVICE.check(on(DEAD), None)
    with pytest.raises(ServiceError, match=r"kube-scheduler\.service is unknown"):
        SERVICE.check(on(OURS, fails=("show",)), None)


def test_restart_reloads_unit_files(on):
    machine = on(OURS, fails=("reset-failed",))
    SERVICE.restart(machine)
    assert [command[1] for command in machine.commands] == ["reset-failed", "daemon-reload", "restart"]
    assert machine.commands[-1] == ["systemctl", "restart", "kube-scheduler.service"]


@pytest.mark.parametrize("command", ["daemon-reload", "restart"])
def test_failed_restart_is_reported_with_log_tail(on, command):
    machine = on(OURS, fails=(command,))
    with pytest.raises(
        ServiceError, match=rf"`systemctl {command}.*` failed with 1: it refuses; the end of its log:\nunknown"
    ):
        SERVICE.restart(machine)


@pytest.mark.parametrize(
    "silence", [{"fails": ("daemon-reload", "journalctl")}, {"fails": ("daemon-reload",), "log": ""}]
)
def test_failed_restart_without_log_is_reported_without_log_tail(on, silence):
    with pytest.raises(ServiceError, match=r"it refuses$"):
        SERVICE.restart(on(OURS, **silence))


FILE = StateFile("/state.json", timeout_seconds=10)
TEXT = "kind: KubeSchedulerConfiguration\n"
DIGEST = hashlib.sha256(TEXT.encode()).hexdigest()


@pytest.fixture
def saying(monkeypatch):
    """A host whose state file says this after so many seconds, and its clock."""

    def make(says):
        clock = SimpleNamespace(now=0.0)

        def sleep(seconds):
            clock.now += seconds

        monkeypatch.setattr(waiters, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
        return SimpleNamespace(clock=clock, read=lambda path: says(clock.now) if path == FILE.path else None)

    return make


def test_wait_returns_when_runner_reports_configuration(saying):
    told = [None, b"{", b"\xff", {"ready": True, "config_sha256": "other"}, {"config_sha256": DIGEST}]
    told.append({"ready": True, "config_sha256": DIGEST})

    def says(seconds):
        each = told[int(seconds)]
        return json.dumps(each).encode() if isinstance(each, dict) else each

    host = saying(says)
    FILE.wait(host, TEXT, None)
    assert host.clock.now == 5


def test_configuration_refused_by_runner_is_reported_immediately(saying):
    host = saying(lambda _: json.dumps({"config_sha256": DIGEST, "error": "unknown field"}).encode())
    with pytest.raises(ServiceError, match="is not running with its configuration: unknown field"):
        FILE.wait(host, TEXT, None)
    assert host.clock.now == 0


def test_runner_that_reports_no_status_times_out(saying):
    host = saying(lambda _: None)
    with pytest.raises(ServiceError, match="is not running with its configuration after 10 s"):
        FILE.wait(host, TEXT, None)
    assert host.clock.now == 11
