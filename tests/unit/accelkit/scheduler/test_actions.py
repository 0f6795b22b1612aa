import pytest

from accelkit.errors import ConfigurationError
from accelkit.scheduler.actions import build_switch, summarize
from accelkit.scheduler.arguments import LaunchSpec, Spec
from accelkit.scheduler.switch.survey import FileChange
from accelkit.scheduler.switch.switch import SwitchOutcome


class Host:
    """A host that notes which commands it is asked to run and which folders to list."""

    def __init__(self):
        self.asked = []

    def run(self, command):
        self.asked.append(command)
        return 0, "FragmentPath=/lib/systemd/system/x.service\nDropInPaths=\n"

    def list_names(self, folder):
        self.asked.append(folder)
        return ["config.yaml"]


def asked(**launch):
    host = Host()
    build_switch(Spec(node="n", launch=LaunchSpec(**launch)), host, None)
    return host.asked


@pytest.mark.parametrize(("unit", "named"), [("", "kube-scheduler.service"), ("mine.service", "mine.service")])
def test_systemd_is_queried_for_files_of_scheduler_unit(unit, named):
    assert asked(kind="systemd", unit=unit) == [["systemctl", "show", "--property=FragmentPath,DropInPaths", named]]


@pytest.mark.parametrize(
    "launch", [{"kind": "static_pod"}, {"kind": "config_file"}, {"kind": "config_file", "path": "/etc/s.yaml"}], ids=str
)
def test_launch_kind_requires_its_parameters(launch):
    with pytest.raises(ConfigurationError, match="without"):
        asked(**launch)


def test_outcome_contains_file_diffs_without_private_keys():
    key = b"-----BEGIN RSA PRIVATE KEY-----\nsecret\n"
    changes = (FileChange("/a", b"one\n", b"two\n"), FileChange("/b", None, key), FileChange("/c", b"\xff", None))
    assert summarize(SwitchOutcome(changes, exact=False, problems=("odd",))) == {
        "changed": True,
        "restored": False,
        "problems": ["odd"],
        "diff": [
            {"before_header": "/a", "after_header": "/a", "before": "one\n", "after": "two\n"},
            {"before_header": "/b", "after_header": "/b", "before": "", "after": "(a private key)\n"},
            {"before_header": "/c", "after_header": "/c", "before": "\ufffd", "after": ""},
        ],
    }
