"""playbooks/awx.yml with the modules of awx.awx, against a server that speaks AWX's API; what AWX then has."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from conftest import BIN, REPOSITORY
from fake_awx import TOKEN, serve
from jinja2.sandbox import ImmutableSandboxedEnvironment
from ruamel.yaml import YAML

from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.registry.credentials import RegistryCredentials
from accelkit.model.units import parse_unit

pytestmark = [pytest.mark.integration, pytest.mark.extended, pytest.mark.timeout(600)]

IMAGE = "registry.example.org/accelkit:0.1.0"
SETTINGS = {
    "accelkit_image": IMAGE,
    "accelkit_unit": "512MiB",
    "accelkit_policy": "spread",
    "accelkit_dialects": ["gcushare", "native"],
    "accelkit_shared_nodes": ["node-1", "node-2"],
}
GIVEN = {"awx_project_url": "https://git.example.org/accelkit.git", "awx_image": "registry.example.org/ee:1"}
PLAYBOOKS = {"preflight", "share", "verify", "driver", "future", "cache", "kernel_cache", "examples", "remove"}


def load(path: Path):
    yaml = YAML(typ="safe", pure=True)
    yaml.constructor.add_constructor("!unsafe", lambda constructor, node: constructor.construct_scalar(node))
    return yaml.load(path.read_text())


SETTINGS_FILE = load(REPOSITORY / "playbooks/vars/settings.yml")
SPECIFIED = SETTINGS_FILE["__accelkit_settings"]
# Nothing else adds to accelkit here.
SPECIFIED["accelkit_dialects"]["choices"] = SETTINGS_FILE["__accelkit_own_dialects"]
SPECIFIED["accelkit_policy"]["choices"] = SETTINGS_FILE["__accelkit_own_policies"]
VARIABLES = {name: value for path in (REPOSITORY / "awx/vars").glob("*.yml") for name, value in load(path).items()}
ITEMS = {name: value for name, value in VARIABLES.items() if name.startswith("controller_")}


def environ(home: Path) -> dict[str, str]:
    return {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(home), "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"}


def apply(url: str, given: dict, home: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "ansible",
        "playbook",
        "playbooks/awx.yml",
        "-i",
        "localhost,",
        "-e",
        json.dumps(given),
    ]
    where = {"CONTROLLER_HOST": url, "CONTROLLER_OAUTH_TOKEN": TOKEN}
    return subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**environ(home), **where},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.fixture(scope="module")
def awx(tmp_path_factory):
    """An AWX to which all was applied twice; the second time changed nothing."""
    home = tmp_path_factory.mktemp("awx-home")
    given = {**GIVEN, "awx_settings": SETTINGS}
    with serve() as awx:
        awx.add("credentials", name="accelkit cluster")
        first = apply(awx.url, given, home)
        assert first.returncode == 0, first.stdout + first.stderr
        assert re.search(r"changed=[1-9]", first.stdout)
        assert "WARNING" not in first.stdout + first.stderr
        writes = len(awx.writes)
        second = apply(awx.url, given, home)
        assert second.returncode == 0, second.stdout + second.stderr
        assert "changed=0" in second.stdout
        assert awx.writes[writes:] == []
        yield awx


def surveys(awx):
    for plural in ("job_templates", "workflow_job_templates"):
        for each in awx.objects[plural].values():
            yield each["name"], awx.surveys[each["related"]["survey_spec"]]["spec"]


def test_each_template_runs_playbook_of_project_without_concurrent_jobs(awx):
    templates = awx.objects["job_templates"].values()
    assert {each["name"] for each in templates} == {f"accelkit {name.replace('_', ' ')}" for name in PLAYBOOKS}
    project, inventory = awx.find("projects", "accelkit"), awx.find("inventories", "accelkit")
    for each in templates:
        assert (REPOSITORY / "awx/project" / each["playbook"]).is_file()
        assert each["allow_simultaneous"] is False
        assert (each["project"], each["inventory"]) == (project["id"], inventory["id"])
        # Whoever gives variables to `cache` can run anything beside what is there.
        of_cluster = [] if each.get("ask_variables_on_launch") else [awx.find("credentials", "accelkit cluster")["id"]]
        assert awx.find_associated(each, "credentials") == of_cluster
        assert each["execution_environment"] == awx.find("execution_environments", "accelkit")["id"]


def test_workflow_runs_remove_if_share_or_verify_fails(awx):
    nodes = {each["identifier"]: each for each in awx.objects["workflow_job_template_nodes"].values()}
    names = {each["id"]: name for name, each in nodes.items()}
    edges = {
        (name, kind): [names[each] for each in awx.find_associated(node, f"{kind}_nodes")]
        for name, node in nodes.items()
        for kind in ("success", "failure", "always")
    }
    assert {edge: targets for edge, targets in edges.items() if targets} == {
        ("preflight", "success"): ["share"],
        ("share", "success"): ["verify"],
        ("share", "failure"): ["remove"],
        ("verify", "failure"): ["remove"],
    }
    for name, node in nodes.items():
        assert node["unified_job_template"] == awx.find("job_templates", f"accelkit {name}")["id"]


def test_verification_is_scheduled(awx):
    schedule = awx.find("schedules", "accelkit verify")
    assert schedule["unified_job_template"] == awx.find("job_templates", "accelkit verify")["id"]
    # AWX needs the whole rule, with its start.
    assert re.fullmatch(r"DTSTART:\d{8}T\d{6}Z RRULE:FREQ=DAILY;INTERVAL=1", schedule["rrule"])


def test_the_inventory_has_the_settings_and_a_source_in_the_project(awx):
    inventory = awx.find("inventories", "accelkit")
    assert json.loads(inventory["variables"]) == {"accelkit_cluster": "kubernetes", **SETTINGS}
    source = awx.find("inventory_sources", "accelkit nodes")
    assert source["source_project"] == awx.find("projects", "accelkit")["id"]
    assert (REPOSITORY / "awx/project" / source["source_path"]).is_dir()


def find_wrong(variable: str, value: object) -> list[str]:
    """Return what the first play would say of a value, beside formats."""
    spec = {name: each for name, each in SPECIFIED[variable].items() if name != "format"}
    return list(ArgumentSpecValidator({variable: spec}).validate({variable: value}).error_messages)


def test_each_survey_question_matches_argument_spec(awx):
    asked = [(name, question) for name, spec in surveys(awx) for question in spec]
    assert len(asked) > 20
    for name, question in asked:
        variable, kind = question["variable"], question["type"]
        assert variable in SPECIFIED, name
        spec = SPECIFIED[variable]
        kinds = {
            "int": {"integer"},
            "bool": {"multiplechoice"},
            "list": {"multiselect"} if "choices" in spec else {"text"},
            "str": {"multiplechoice"} if "choices" in spec else {"text", "multiplechoice"},
        }
        assert kind in kinds.get(spec["type"], {"text"}), variable
        for choice in question.get("choices", ()):
            assert find_wrong(variable, choice) == [], variable
            if spec.get("format") == "unit":
                assert parse_unit(choice)
        if spec["type"] == "list" and "choices" in spec:
            assert sorted(question["choices"]) == sorted(spec["choices"])
        if spec["type"] == "bool":
            assert sorted(question["choices"]) == ["false", "true"]
        if spec.get("format") == "port":
            assert (question["min"], question["max"]) == (0, 65535)
        if kind == "integer":
            assert question["min"] <= question["default"] <= question["max"]
        default = question["default"].split("\n") if kind == "multiselect" else question["default"]
        assert default in ("", [""]) or find_wrong(variable, default) == []
        # What has to be answered has no meaning for an empty answer, and the reverse.
        assert question["required"] == (variable in REQUIRED), variable


REQUIRED = {
    *("accelkit_image", "accelkit_unit_change", "accelkit_purge_logs", "accelkit_driver_drain_timeout"),
    *("accelkit_examples_state", "accelkit_examples_set", "accelkit_examples_timeout"),
    *("accelkit_kernel_cache_state", "accelkit_kernel_cache_name", "accelkit_kernel_cache_timeout"),
}


def test_survey_defaults_are_settings_of_cluster(awx):
    defaults = {question["variable"]: question["default"] for question in dict(surveys(awx))["accelkit share"]}
    assert defaults["accelkit_image"] == IMAGE
    assert defaults["accelkit_unit"] == "512MiB"
    assert defaults["accelkit_policy"] == "spread"
    assert defaults["accelkit_dialects"] == "gcushare\nnative"
    assert defaults["accelkit_shared_nodes"] == "node-1,node-2"
    assert defaults["accelkit_mode"] == ""
    install = awx.find("workflow_job_templates", "accelkit install")
    preflight = awx.find("job_templates", "accelkit preflight")
    specs = [awx.surveys[each["related"]["survey_spec"]] for each in (install, preflight)]
    assert specs[0] == specs[1]


async def test_credential_types_inject_files_and_settings(awx, tmp_path):
    secrets = {"registry": "quay.io", "username": "robot", "password": 'a"b\\c', "policies": "policies: []\n"}
    for kind in awx.objects["credential_types"].values():
        assert set(kind["inputs"]["required"]) == {each["id"] for each in kind["inputs"]["fields"]}
        files = {}
        for name, template in kind["injectors"]["file"].items():
            path = tmp_path / name
            # As AWX renders injectors.
            path.write_text(ImmutableSandboxedEnvironment().from_string(template).render(**secrets))
            files[name.removeprefix("template.")] = str(path)
        for variable, template in kind["injectors"]["extra_vars"].items():
            given = ImmutableSandboxedEnvironment().from_string(template).render(tower={"filename": files})
            assert given in files.values()
            assert find_wrong(variable, given) == []
    assert (tmp_path / "template.policies").read_text() == "policies: []\n"
    credentials = RegistryCredentials.from_files([tmp_path / "template.config"])
    login = await credentials.find_login(parse_reference("quay.io/team/cache:v1"))
    assert (login.username, login.password) == ("robot", 'a"b\\c')


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"awx_image": "x"}, "missing required arguments: awx_project_url, awx_settings"),
        ({**GIVEN, "awx_settings": {}}, "missing required arguments: accelkit_image found in awx_settings"),
        ({**GIVEN, "awx_settings": {**SETTINGS, "accelkit_polcy": "spread"}}, "accelkit_polcy"),
        ({**GIVEN, "awx_settings": {**SETTINGS, "accelkit_policy": "sprad"}}, "must be one of: binpack, spread"),
    ],
)
def test_invalid_variables_are_reported_before_any_request(given, sentence, tmp_path):
    done = apply("http://127.0.0.1:9", given, tmp_path)
    assert done.returncode != 0
    assert sentence in " ".join(done.stdout.split())


def test_each_item_is_applied_completely_with_documented_options(tmp_path):
    (play,) = load(REPOSITORY / "playbooks/awx.yml")
    tasks = {}
    for task in play["tasks"]:
        if "loop" in task:
            (module,) = [name for name in task if name.startswith("awx.awx.")]
            tasks[task["loop"].strip("{} ")] = module, task[module]
    assert tasks.keys() == ITEMS.keys()
    command = [sys.executable, "-m", "ansible", "doc", "--json", *(module for module, _ in tasks.values())]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environ(tmp_path), capture_output=True, text=True, timeout=120, check=True
    )
    documented = json.loads(done.stdout)
    for name, (module, given) in tasks.items():
        options = documented[module]["doc"]["options"]
        assert given.keys() <= options.keys()
        for item in ITEMS[name]:
            assert item.keys() <= given.keys(), item["name"]
            assert all(f"item.{key}" in given[key] for key in item)
