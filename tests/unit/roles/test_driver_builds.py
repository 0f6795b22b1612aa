"""Jobs that build drivers: the pods of one that is there never change, whatever setting does."""

import hashlib
import json
import re

import pytest
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rendering import ROOT
from support.yaml import parse_yaml_documents

BUILD = {
    "name": "b-1",
    "image": "r/x:1",
    "containerfile": "FROM base",
    "builder": "kaniko:1",
    "args": ["--destination=r/x:1"],
    "push_secret": "push",
    "entitlement_secret": "rhel",
    "node_selector": {"b": "1"},
}
SETTINGS = {
    "driver_image_pull_secrets": [],
    "driver_namespace": "accelkit",
    "driver_timeout": 1800,
    "__driver_build_labels": {"app.kubernetes.io/version": "1"},
}


def make_job(build=None, **settings):
    environment = Environment(  # noqa: S701 - renders YAML, where HTML escapes would be wrong
        loader=FileSystemLoader(ROOT / "roles/driver/templates"), undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["to_json"] = json.dumps
    environment.filters["hash"] = lambda text, kind: hashlib.new(kind, text.encode()).hexdigest()
    given = {**SETTINGS, **settings, "__driver_builds": [BUILD | (build or {})]}
    text = environment.get_template("builds.yml.j2").render(given)
    config, job = parse_yaml_documents(text)
    assert config["metadata"]["name"] == job["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"]
    return job


@pytest.mark.parametrize(
    "changed",
    [
        {"build": {"name": "b-2"}},
        {"build": {"builder": "buildah:1"}},
        {"build": {"args": ["bud"]}},
        {"build": {"push_secret": "other"}},
        {"build": {"push_secret": ""}},
        {"build": {"entitlement_secret": "other"}},
        {"build": {"node_selector": {}}},
        {"driver_image_pull_secrets": ["registry"]},
        {"__driver_build_labels": {"app.kubernetes.io/version": "2"}},
    ],
)
def test_changed_pod_template_changes_job_name(changed):
    before, after = make_job(), make_job(**changed)
    assert before["spec"]["template"] != after["spec"]["template"]
    assert before["metadata"]["name"] != after["metadata"]["name"]
    assert re.fullmatch(r"b-\d-[0-9a-f]{8}", after["metadata"]["name"])


def test_changed_deadline_does_not_change_job_name():
    before, after = make_job(), make_job(driver_timeout=60)
    assert before["metadata"] == after["metadata"]
    assert (before["spec"]["activeDeadlineSeconds"], after["spec"]["activeDeadlineSeconds"]) == (1800, 60)
