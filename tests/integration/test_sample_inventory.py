"""The first play with inventories/sample as it is shipped, and what it says where something is wrong or missing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, REPOSITORY

pytestmark = pytest.mark.integration

SECOND = {"accelkit_mode": "second-scheduler", "accelkit_image": "registry.example.org/accelkit:1"}


def play(kubeconfig: Path, given: dict, home: Path) -> tuple[int, str]:
    """Run preflight.yml with the sample inventory and these variables; return the exit status and what it says."""
    command = [BIN / "ansible-playbook", "playbooks/preflight.yml", "-i", "inventories/sample", "-e", json.dumps(given)]
    environ = {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_NOCOLOR": "1",
    }
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**environ, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_a_kubeconfig_is_all_that_the_sample_inventory_needs(control_plane, tmp_path):
    status, said = play(control_plane.kubeconfig, SECOND, tmp_path)
    assert status == 0, said
    assert "changed=0" in said


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "set accelkit_mode to second-scheduler, which starts a second kube-scheduler"),
        (
            {"accelkit_mode": "second-scheduler"},
            "registry.example.org/accelkit is an example; set accelkit_images_registry",
        ),
        ({"accelkit_mode": "second_scheduler"}, "value of accelkit_mode must be one of: second-scheduler"),
        ({"accelkit_policy": "sprad"}, "value of accelkit_policy must be one of: binpack, spread"),
        ({"accelkit_unit": "3GiB"}, "accelkit_unit: "),
        ({"accelkit_polcy": "spread"}, "accelkit_polcy is not known; accelkit_policy is"),
        ({"accelkit_kubeconfig": "/nowhere"}, "kubeconfig /nowhere cannot be read: there is no such file"),
        (
            {"accelkit_connection": {"host": "https://127.0.0.1:9", "api_key": "a-token-of-nobody"}},
            "GET https://127.0.0.1:9/version got no answer",
        ),
    ],
)
def test_what_is_wrong_is_told_before_anything_else(control_plane, given, sentence, tmp_path):
    status, said = play(control_plane.kubeconfig, given, tmp_path)
    assert status != 0
    assert sentence in said


def test_an_unanswered_survey_is_as_if_nothing_was_asked(control_plane, tmp_path):
    empty = dict.fromkeys(("accelkit_policy", "accelkit_unit", "accelkit_dialects", "accelkit_metrics_port"), "")
    status, said = play(control_plane.kubeconfig, {**SECOND, **empty}, tmp_path)
    assert status == 0, said
