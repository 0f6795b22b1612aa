"""What `accelkit verify` prints and writes, and how it ends."""

import json
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from accelkit.cli import main
from accelkit.enablement import command as module


@pytest.fixture
def verify(cluster, monkeypatch):
    """Run the command against the cluster as it is."""

    def run(*arguments):
        api = cluster.serve()
        monkeypatch.setattr(module, "load_connection", lambda _: None)
        monkeypatch.setattr(module, "ApiClient", lambda _: api)
        return CliRunner().invoke(main, ["verify", *arguments], catch_exceptions=False)

    return run


def test_verify_exits_with_0_for_healthy_cluster(verify):
    result = verify()
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "1 of 1 node passed; worst: pass"


def test_verify_exits_with_1_for_error_and_2_for_invalid_usage(cluster, verify):
    assert verify("-o", "pdf").exit_code == 2
    del cluster.node.labels["accelkit.io/share"]
    result = verify()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: no node is labelled accelkit.io/share=true; run site.yml")


def test_verify_accepts_node_names(verify):
    result = verify("n", "m", "-o", "json")
    assert result.exit_code == 4
    assert [node["name"] for node in json.loads(result.stdout)["nodes"]] == ["m", "n"]


def test_verify_prints_only_document(verify):
    assert json.loads(verify("-o", "ctrf").stdout)["reportFormat"] == "CTRF"
    assert ET.fromstring(verify("-o", "junit").stdout.encode()).tag == "testsuites"  # noqa: S314 - our own document
    assert verify("-o", "html").stdout.startswith("<!doctype html>")


def test_verify_writes_document_to_file_and_text_to_terminal(cluster, verify, tmp_path):
    cluster.node.pods.clear()
    file = tmp_path / "report.xml"
    result = verify("-o", "junit", "--output-file", str(file))
    assert result.exit_code == 4
    assert ET.parse(file).getroot().get("failures") == "1"  # noqa: S314 - our own document
    assert "FAIL  device-plugin AgentMissing" in result.stdout


def test_unwritable_output_file_is_reported_with_next_step(verify, tmp_path):
    result = verify("--output-file", str(tmp_path / "none" / "report"))
    assert result.exit_code == 1
    assert ": No such file or directory; specify another file with --output-file" in result.stderr
