import json

import pytest
from odd_manifests import PLAIN, with_mount, with_options
from scheduler_manifests import kubeadm_manifest
from version_table import desired

from accelkit.errors import ConfigurationError
from accelkit.scheduler.launch.manifest import StaticPod
from accelkit.scheduler.switch.gcushare import BACKUP, CONFIGURATIONS, FILES, find_leftovers

JSON_FILE, YAML_FILE = CONFIGURATIONS
OLD = kubeadm_manifest(21)
POLICY = {
    "kind": "Policy",
    "apiVersion": "v1",
    "extenders": [{"urlPrefix": "http://127.0.0.1:32766/gcushare-scheduler", "bindVerb": "bind"}],
}
SETTINGS = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: http://127.0.0.1:32766/gcushare-scheduler
  bindVerb: bind
"""


def installed(original, option, path):
    text = with_mount(with_options(original, f"--{option}={path}"), path, path)
    return text.replace("  hostNetwork: true\n", "  dnsPolicy: ClusterFirstWithHostNet\n  hostNetwork: true\n")


def found(current, **files):
    given = {JSON_FILE: json.dumps(POLICY), YAML_FILE: SETTINGS, **files}
    return find_leftovers(current, lambda path: given[path].encode() if given.get(path) else None)


HOSTS = {
    "before 1.23": (OLD, installed(OLD, "policy-config-file", JSON_FILE)),
    "from 1.23": (PLAIN, installed(PLAIN, "config", YAML_FILE)),
}


@pytest.mark.parametrize(("original", "current"), HOSTS.values(), ids=HOSTS)
def test_backup_manifest_is_used_as_original(original, current):
    files = {BACKUP: original, FILES[3]: current}
    left = found(current, **files)
    assert left.original == original
    assert left.files == FILES


@pytest.mark.parametrize(("original", "current"), HOSTS.values(), ids=HOSTS)
def test_upgraded_manifest_loses_only_gcushare_lines(original, current):
    def upgraded(text):
        return text.replace(".0\n    imagePull", ".9\n    imagePull").replace("cpu: 100m", "cpu: 200m")

    assert found(upgraded(current), **{BACKUP: original}).original == upgraded(original)


def test_option_and_mount_are_removed_without_backup_manifest():
    current = with_mount(with_options(PLAIN, f"--config={YAML_FILE}"), YAML_FILE, YAML_FILE)
    assert found(current).original == PLAIN


def test_option_replaced_by_gcushare_is_restored():
    original = with_mount(with_options(PLAIN, "--config=/etc/own.yaml"), "/etc/own.yaml", "/etc/own.yaml")
    current = original.replace("    - --config=/etc/own.yaml\n", "").replace(
        "    - --leader-elect=true\n", f"    - --leader-elect=true\n    - --config={YAML_FILE}\n"
    )
    current = current.replace(
        "    volumeMounts:\n", f"    volumeMounts:\n    - mountPath: {YAML_FILE}\n      name: its\n"
    )
    current = current.replace("  volumes:\n", f"  volumes:\n  - hostPath:\n      path: {YAML_FILE}\n    name: its\n")
    assert found(current, **{BACKUP: original}).original == original


def test_unusable_backup_manifest_is_ignored():
    current = with_mount(with_options(PLAIN, f"--config={YAML_FILE}"), YAML_FILE, YAML_FILE)
    assert found(current, **{BACKUP: "garbage: ["}).original == PLAIN
    assert found(current, **{BACKUP: current}).original == PLAIN


def test_dns_policy_changed_by_gcushare_is_restored():
    original = PLAIN.replace("  hostNetwork: true\n", "  dnsPolicy: Default\n  hostNetwork: true\n")
    current = installed(original, "config", YAML_FILE).replace("  dnsPolicy: Default\n", "", 1)
    assert found(current, **{BACKUP: original}).original == original


@pytest.mark.parametrize("content", [SETTINGS.replace("/gcushare-scheduler", ""), "a: ["])
def test_foreign_configuration_is_not_treated_as_leftover(content):
    current = with_mount(with_options(PLAIN, "--config=/etc/own.yaml"), "/etc/own.yaml", "/etc/own.yaml")
    given = {"/etc/own.yaml": content}
    assert find_leftovers(current, lambda path: given[path].encode() if path in given else None) is None


def test_unused_gcushare_files_are_listed_for_removal():
    left = found(PLAIN, **{BACKUP: PLAIN})
    assert left.original == PLAIN
    assert left.files == (*CONFIGURATIONS, BACKUP)


def test_foreign_extender_in_gcushare_configuration_is_refused():
    text = SETTINGS + "- urlPrefix: http://other\n"
    with pytest.raises(ConfigurationError, match="also names the extender http://other"):
        found(HOSTS["from 1.23"][1], **{YAML_FILE: text})


def test_plan_is_based_on_original_manifest():
    current = HOSTS["from 1.23"][1]
    original = found(current, **{BACKUP: PLAIN}).original
    given = desired("v1.34.4")
    plan = StaticPod().plan(original, None, lambda _: None, given)
    assert plan == StaticPod().plan(PLAIN, None, lambda _: None, given)
    with pytest.raises(ConfigurationError, match="already binds pods"):
        StaticPod().plan(current, None, lambda path: SETTINGS.encode() if path == YAML_FILE else None, given)
