"""Whose the store of a node is: root's, also what an agent of an earlier version left there as another user."""

import os
import subprocess

import pytest
from rendering import render

from accelkit.gkm.names import HOST_FOLDER

pytestmark = [pytest.mark.xdist_group("kernel_cache_role"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def agents(tmp_path_factory):
    """The pods of the agents by the user of former ones."""
    cases = {str(user): {"kernel_cache_agent_former_user": user} for user in (65532, 0)}
    found = render(tmp_path_factory.mktemp("agents"), "kernel_cache", "agent.yaml.j2", cases)
    return {
        int(user): next(each["spec"]["template"]["spec"] for each in objects if each["kind"] == "DaemonSet")
        for user, objects in found.items()
    }


def test_all_agent_containers_run_as_root(agents):
    for spec in agents.values():
        assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["runAsGroup"]) == (0, 0)
        for each in [*spec["containers"], *spec.get("initContainers", [])]:
            assert not {"runAsUser", "runAsGroup", "runAsNonRoot"} & each["securityContext"].keys()


def test_ownership_is_not_changed_without_former_user(agents):
    assert "initContainers" not in agents[0]


def test_files_of_former_user_are_changed_to_root_from_top_to_bottom(agents, tmp_path, monkeypatch):
    (container,) = agents[65532]["initContainers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN"]}
    command = container["command"]
    assert command[:4] == ["find", str(HOST_FOLDER), "-uid", "65532"]
    # Files of ours are the former user's here; a stand-in tells what would be given to root, in that order.
    said, store, programs = (tmp_path / name for name in ("said", "store", "bin"))
    programs.mkdir()
    (programs / "chown").write_text(f'#!/bin/sh\necho "$@" >> {said}\n')
    (programs / "chown").chmod(0o755)
    (store / "closed" / "inner").mkdir(parents=True)
    (store / "closed" / "file").touch()
    (store / "link").symlink_to("/etc")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    subprocess.run(["find", store, "-uid", str(os.getuid()), *command[4:]], check=True, timeout=60)
    *folders, others = said.read_text().splitlines()
    assert folders == [f"0:0 {each}" for each in (store, store / "closed", store / "closed/inner")]
    assert set(others.split()) == {"-h", "0:0", f"{store}/closed/file", f"{store}/link"}
    said.unlink()
    subprocess.run(["find", store, "-uid", str(os.getuid() + 1), *command[4:]], check=True, timeout=60)
    assert not said.exists()
