"""The SELinux module of the agents: it compiles, and covers what their pods mount and may do."""

import re
import shutil
import subprocess

import pytest
from rendering import ROOT, evaluate

from accelkit.enablement.openshift.constraints import MUST, needed_constraints

FOLDER = ROOT / "roles/device_plugin/files/selinux"
POLICY = (FOLDER / "accelkit.te").read_text()
TYPES = {"device_plugin": "accelkit_node_agent_t", "kernel_cache": "accelkit_cache_agent_t"}
TEMPLATES = {"device_plugin": "objects.yaml.j2", "kernel_cache": "agent.yaml.j2"}
SETTINGS = {
    "device_plugin_selinux_type": TYPES["device_plugin"],
    "device_plugin_processes": True,
    "device_plugin_cgroups": True,
    "device_plugin_cdi_folders": ["/etc/cdi", "/var/run/cdi"],
    "kernel_cache_agent_selinux_type": TYPES["kernel_cache"],
}
pytestmark = [pytest.mark.xdist_group("selinux"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def pods(tmp_path_factory):
    """The agents' pods by role."""
    lookup = "lookup('ansible.builtin.template', file) | from_yaml_all"
    cases = {role: {"file": str(ROOT / f"roles/{role}/templates/{name}")} for role, name in TEMPLATES.items()}
    found = evaluate(tmp_path_factory.mktemp("rendered"), lookup, cases, roles=[*TEMPLATES], extra=SETTINGS)
    return {
        role: next(each["spec"]["template"]["spec"] for each in objects if each["kind"] == "DaemonSet")
        for role, objects in found.items()
    }


def test_selinux_module_compiles(tmp_path):
    if not shutil.which("checkmodule") or not shutil.which("semodule_package"):
        pytest.skip("neither checkmodule nor semodule_package is on PATH")
    module, package = tmp_path / "accelkit.mod", tmp_path / "accelkit.pp"
    for command in (
        ["checkmodule", "-M", "-m", "-o", module, FOLDER / "accelkit.te"],
        ["semodule_package", "-o", package, "-m", module, "-f", FOLDER / "accelkit.fc"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
    assert b"accelkit_cache_t" in package.read_bytes()


def test_agent_pods_run_with_types_of_selinux_module(pods):
    for role, name in TYPES.items():
        assert pods[role]["securityContext"]["seLinuxOptions"] == {"type": name, "level": "s0"}
        assert f"type {name}, accelkit_agent," in POLICY
        # With a level, OpenShift allows this context and no other.
        assert needed_constraints(pods[role]).se_linux_context.type == MUST


@pytest.mark.parametrize("role", TYPES)
def test_selinux_capabilities_match_containers(pods, role):
    containers = pods[role]["containers"] + pods[role].get("initContainers", [])
    added = {name.lower() for each in containers for name in each["securityContext"]["capabilities"].get("add", [])}
    allowed = re.findall(rf"^allow {TYPES[role]} self:capability (.*);$", POLICY, re.MULTILINE)
    assert set(" ".join(allowed).strip("{} ").split()) == added


def test_tenant_pods_may_only_read_cached_files():
    [rule] = re.findall(r"^allow container_domain accelkit_cache_t:file \{ (.*) \};$", POLICY, re.MULTILINE)
    assert set(rule.split()) & {"write", "append", "create", "unlink", "rename", "setattr", "link"} == set()
    assert "container_file_t" not in (FOLDER / "accelkit.fc").read_text()
    assert "mcs_constrained_type" not in POLICY
