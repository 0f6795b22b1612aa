"""The first play with inventories/sample as it is shipped, and what it says where something is wrong or missing."""

from __future__ import annotations

import http.server
import json
import os
import threading
from pathlib import Path

import pytest
from conftest import BIN, ansible_playbook
from fake_api.kubeconfig import write_kubeconfig

pytestmark = pytest.mark.integration

SECOND = {"accelkit_mode": "second-scheduler", "accelkit_image": "registry.example.org/accelkit:1"}


def play(kubeconfig: Path, given: dict, home: Path) -> tuple[int, str]:
    """Run preflight.yml with the sample inventory and these variables; return the exit status and what it says."""
    environ = {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_NOCOLOR": "1",
        "KUBECONFIG": str(kubeconfig),
    }
    arguments = ("playbooks/preflight.yml", "-i", "inventories/sample", "-e", json.dumps(given))
    done = ansible_playbook(*arguments, environ=environ, seconds=120)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_sample_inventory_needs_only_kubeconfig(control_plane, tmp_path):
    status, said = play(control_plane.kubeconfig, SECOND, tmp_path)
    assert status == 0, said
    assert "changed=0" in said


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "set accelkit_mode to second-scheduler to run a second kube-scheduler"),
        (
            {"accelkit_mode": "second-scheduler"},
            "registry.example.org/accelkit is an example; set accelkit_images_registry",
        ),
        ({"accelkit_mode": "second_scheduler"}, "value of accelkit_mode must be one of: second-scheduler"),
        ({"accelkit_policy": "sprad"}, "value of accelkit_policy must be one of: binpack, spread"),
        ({"accelkit_unit": "3GiB"}, "accelkit_unit: "),
        ({"accelkit_polcy": "spread"}, "accelkit_polcy is not known; accelkit_policy is"),
        ({"accelkit_kubeconfig": "/nowhere"}, "cannot read kubeconfig /nowhere: the file does not exist"),
        (
            {"accelkit_connection": {"host": "https://127.0.0.1:9", "api_key": "a-token-of-nobody"}},
            "GET https://127.0.0.1:9/version received no response",
        ),
    ],
)
def test_first_play_reports_invalid_settings(control_plane, given, sentence, tmp_path):
    status, said = play(control_plane.kubeconfig, given, tmp_path)
    assert status != 0
    assert sentence in said


def test_empty_survey_answers_are_ignored(control_plane, tmp_path):
    empty = dict.fromkeys(("accelkit_policy", "accelkit_unit", "accelkit_dialects", "accelkit_metrics_port"), "")
    status, said = play(control_plane.kubeconfig, {**SECOND, **empty}, tmp_path)
    assert status == 0, said


class Old(http.server.BaseHTTPRequestHandler):
    """An API server of a version that is too old, as far as it is asked before it is refused."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        node = {"metadata": {"name": "a", "labels": {"node-role.kubernetes.io/master": ""}}, "status": {}}
        nodes = {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": [node]}
        answer = {"gitVersion": "v1.20.15"} if self.path == "/version" else nodes
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_unsupported_kubernetes_version_is_refused(tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Old) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        kubeconfig = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}")
        status, said = play(kubeconfig, {}, tmp_path)
        server.shutdown()
    assert status != 0
    assert "this cluster runs Kubernetes v1.20.15; accelkit supports 1.21 and newer" in said
