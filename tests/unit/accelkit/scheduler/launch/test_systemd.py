import pytest
from odd_manifests import CONFIGURATION
from support.yaml import parse_yaml
from version_table import desired

from accelkit.errors import ConfigurationError
from accelkit.scheduler.launch.systemd import SystemdUnit

PATH = "/etc/systemd/system/kube-scheduler.service"
UNIT = """\
[Unit]
Description=Kubernetes Scheduler
[Service]
User=kube
ExecStart=/usr/local/bin/kube-scheduler \\
  --kubeconfig=/etc/s.conf \\
# spoken for
  --v=2 "--feature-gates=A=true,B=false" --bind-address=%H
Restart=always
"""
USERS = "root:x:0:0::/root:/bin/sh\nkube:x:998:998::/:/bin/false\n"
FILES = {PATH: UNIT, "/etc/passwd": USERS}


def planned(files=FILES, sources=(), current=None, version="v1.34.4"):
    def read(path):
        return files[path].encode() if path in files else None

    return SystemdUnit(sources=sources).plan(current, None, read, desired(version))


def test_drop_in_starts_same_program_with_one_additional_option():
    plan = planned()
    assert plan.launch_text == (
        "# Written by accelkit, which takes it away again.\n[Service]\nExecStart=\n"
        "ExecStart=/usr/local/bin/kube-scheduler \\\n  --kubeconfig=/etc/s.conf \\\n  --v=2 \\\n"
        f'  "--feature-gates=A=true,B=false" \\\n  --bind-address=%H \\\n  {plan.marker}\n'
    )
    text = plan.files[plan.marker.partition("=")[2]].content.decode()
    assert parse_yaml(text)["clientConnection"] == {"kubeconfig": "/etc/s.conf"}
    assert plan.files["/etc/kubernetes/accelkit/client.key"].owner == 998


def test_drop_in_is_owned_by_accelkit_and_removed_on_unswitch():
    unit, plan = SystemdUnit(), planned()
    assert unit.path == "/etc/systemd/system/kube-scheduler.service.d/50-accelkit.conf"
    assert unit.is_switched(plan.launch_text)
    assert unit.unswitch(plan.launch_text, None) is None
    assert planned(current=plan.launch_text) == plan


def test_existing_configuration_is_replaced_by_merged_configuration():
    files = {**FILES, PATH: UNIT.replace("--v=2", "--config /etc/own.yaml"), "/etc/own.yaml": CONFIGURATION}
    plan = planned(files)
    assert "/etc/own.yaml" not in plan.launch_text
    assert plan.files[plan.marker.partition("=")[2]].content.decode().startswith(CONFIGURATION)


def test_earlier_drop_ins_are_applied():
    early = PATH + ".d/10-own.conf"
    files = {**FILES, early: "[Service]\nExecStart=\nExecStart=/opt/kube-scheduler --v=9\nUser=\n"}
    plan = planned(files, sources=(PATH, early, SystemdUnit().path))
    assert "ExecStart=/opt/kube-scheduler \\\n  --v=9 \\\n" in plan.launch_text


LATE = PATH + ".d/90-own.conf"
REFUSED = {
    "no unit": ({}, (), "systemd has no unit file kube-scheduler.service"),
    "variables": ({PATH: UNIT.replace("--v=2", "$KUBE_SCHEDULER_OPTS")}, (), "environment variables"),
    "braces": ({PATH: UNIT.replace("--v=2", "--v=${LEVEL}")}, (), "environment variables"),
    "a script": (
        {PATH: UNIT.replace("/usr/local/bin/kube-scheduler", "/bin/sh -c 'kube-scheduler'")},
        (),
        "shell script",
    ),
    "another program": ({PATH: UNIT.replace("kube-scheduler", "kube-proxy")}, (), "does not run kube-scheduler"),
    "no start": ({PATH: "[Service]\n"}, (), "has 0 ExecStart lines"),
    "set after ours": (
        {**FILES, LATE: "[Service]\nExecStart=\nExecStart=/x\n"},
        (PATH, LATE),
        "sets ExecStart after 50-accelkit.conf",
    ),
    "unknown user": ({PATH: UNIT}, (), "runs as the user kube"),
    "no configuration": ({**FILES, PATH: UNIT.replace("--v=2", "--config=/a")}, (), "the host has no such file"),
}


@pytest.mark.parametrize(("files", "sources", "message"), REFUSED.values(), ids=REFUSED)
def test_unsupported_unit_is_refused(files, sources, message):
    with pytest.raises(ConfigurationError, match=message):
        planned(files, sources)


def test_escaped_dollar_is_not_treated_as_variable():
    assert "--v=$$2" in planned({**FILES, PATH: UNIT.replace("--v=2", "--v=$$2")}).launch_text


def test_foreign_file_at_drop_in_path_is_refused():
    with pytest.raises(ConfigurationError, match="does not belong to accelkit"):
        planned(current="[Service]\n")
    assert SystemdUnit().unswitch("[Service]\n", None) == "[Service]\n"
