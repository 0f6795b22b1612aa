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


def test_a_sound_cluster_ends_with_0(verify):
    result = verify()
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "1 of 1 node passed; worst: pass"


def test_an_error_ends_with_1_and_wrong_usage_with_2(cluster, verify):
    assert verify("-o", "pdf").exit_code == 2
    del cluster.node.labels["accelkit.io/share"]
    result = verify()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: no node is labelled accelkit.io/share=true; run site.yml")


def test_nodes_may_be_named(verify):
    result = verify("n", "m", "-o", "json")
    assert result.exit_code == 4
    assert [node["name"] for node in json.loads(result.stdout)["nodes"]] == ["m", "n"]


def test_what_is_printed_is_the_document_alone(verify):
    assert json.loads(verify("-o", "ctrf").stdout)["reportFormat"] == "CTRF"
    assert ET.fromstring(verify("-o", "junit").stdout.encode()).tag == "testsuites"  # noqa: S314 - our own document
    assert verify("-o", "html").stdout.startswith("<!doctype html>")


def test_a_file_gets_the_document_and_the_terminal_the_text(cluster, verify, tmp_path):
    cluster.node.pods.clear()
    file = tmp_path / "report.xml"
    result = verify("-o", "junit", "--output-file", str(file))
    assert result.exit_code == 4
    assert ET.parse(file).getroot().get("failures") == "1"  # noqa: S314 - our own document
    assert "FAIL  device-plugin AgentMissing" in result.stdout


def test_a_file_that_cannot_be_written_is_an_error_with_a_next_step(verify, tmp_path):
    result = verify("--output-file", str(tmp_path / "none" / "report"))
    assert result.exit_code == 1
    assert ": No such file or directory; specify another file with --output-file" in result.stderr
