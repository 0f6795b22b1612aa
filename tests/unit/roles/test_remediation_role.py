"""The objects of the role remediation: rights go with the mode, and policies bound them."""

import json

import pytest
from click import Context
from jinja2 import Environment
from rendering import list_variables, run_play
from support.yaml import read_yaml
from test_roles import ROOT, documents, policies

from accelkit.model.keys import CORDON_KEY, REMEDIATION_ANNOTATION, REPAIRED_ANNOTATION, UNHEALTHY_TAINT
from accelkit.remediation.command import read_options, remediation
from accelkit.remediation.deciding.isolation import CONDITION, TAINT_EFFECT
from accelkit.remediation.deciding.settings import Mode, RemediationSettings

NAME = "accelkit-remediation"
ON = {"mode": "on", "reset_job": "reset"}
PREFLIGHT = read_yaml(ROOT / "roles/remediation/tasks/preflight.yml")


def render(**settings):
    return {each["kind"]: each for each in documents("remediation", accelkit_remediation=settings)}


def list_rights(**settings):
    found = render(**settings)
    return {
        (kind, resource): (set(rule["verbs"]), rule.get("resourceNames"))
        for kind in ("ClusterRole", "Role")
        for rule in found[kind]["rules"]
        for resource in rule["resources"]
        if resource != "leases"
    }


def test_dry_run_mode_has_no_write_access_to_nodes_pods_or_jobs():
    assert list_rights(mode="dry-run", reset_job="reset") == {
        ("ClusterRole", "nodes"): ({"get", "list", "watch"}, None),
        ("ClusterRole", "pods"): ({"list"}, None),
        ("ClusterRole", "events"): ({"create"}, None),
        ("Role", "configmaps"): ({"get"}, None),
        ("Role", "jobs"): ({"get"}, None),
        ("Role", "cronjobs"): ({"get"}, ["reset"]),
    }


def test_on_mode_has_only_required_rights():
    assert list_rights(**ON) == {
        ("ClusterRole", "nodes"): ({"get", "list", "watch", "patch"}, None),
        ("ClusterRole", "nodes/status"): ({"patch"}, None),
        ("ClusterRole", "pods"): ({"list"}, None),
        ("ClusterRole", "pods/eviction"): ({"create"}, None),
        ("ClusterRole", "events"): ({"create"}, None),
        ("Role", "configmaps"): ({"get", "create"}, None),
        ("Role", "jobs"): ({"get", "create"}, None),
        ("Role", "cronjobs"): ({"get"}, ["reset"]),
    }


def test_remediation_without_job_template_cannot_read_jobs():
    assert not {resource for _, resource in list_rights(mode="on")} & {"jobs", "cronjobs"}


@pytest.mark.parametrize(
    ("given", "mode"), [("on", "on"), (True, "on"), (False, "off"), (None, "off"), ("dry-run",) * 2]
)
def test_yaml_booleans_are_accepted_as_mode(given, mode):
    arguments = render(mode=given)["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[arguments.index("--mode") + 1] == mode


def test_command_accepts_role_arguments_and_has_same_defaults(monkeypatch):
    monkeypatch.setenv("POD_NAME", "me")
    other = RemediationSettings(mode=Mode.DRY_RUN, max_unavailable=0, taint=False)
    for settings, expected in (
        ({"mode": "on"}, RemediationSettings(mode=Mode.ON)),
        ({"mode": "dry-run", "max_unavailable": 0, "taint": False}, other),
    ):
        arguments = render(**settings)["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"]
        assert arguments[0] == "remediation"
        context = Context(remediation)
        remediation.parse_args(context, arguments[1:])
        options = read_options(context.params)
        assert options.settings == expected
        assert (options.lease.name, options.namespace) == (NAME, "accelkit")
        assert [each.name for each in options.dialects] == ["native"]


def test_policies_are_rendered_for_write_access_when_api_supports_them():
    assert policies("remediation", admission=False, accelkit_remediation=ON) == []
    dry = policies("remediation", accelkit_remediation={"mode": "dry-run"})
    assert [each["metadata"]["name"] for each in dry] == [f"{NAME}-state"] * 2
    made = policies("remediation", accelkit_remediation=ON)
    names = [each["metadata"]["name"] for each in made if each["kind"] == "ValidatingAdmissionPolicy"]
    assert names == [NAME, f"{NAME}-state", f"{NAME}-jobs"]
    bound = [each["spec"]["policyName"] for each in made if "policyName" in each["spec"]]
    assert bound == names
    for each in made:
        assert each["metadata"]["labels"]["app.kubernetes.io/component"] == "remediation"
        assert each["spec"].get("failurePolicy", "Fail") == "Fail"


def test_policy_contains_keys_written_by_remediation():
    (policy, *_) = policies("remediation", accelkit_remediation=ON)
    text = " ".join(each["expression"] for each in policy["spec"]["validations"])
    for name in (CORDON_KEY, REPAIRED_ANNOTATION, REMEDIATION_ANNOTATION, UNHEALTHY_TAINT, TAINT_EFFECT, CONDITION):
        assert name in text


def test_policies_protect_foreign_state_and_service_accounts():
    made = policies("remediation", accelkit_remediation=ON)
    by_name = {each["metadata"]["name"]: each["spec"] for each in made if "policyName" not in each["spec"]}
    texts = {name: " ".join(each["expression"] for each in spec["validations"]) for name, spec in by_name.items()}
    kinds = {
        name for each in by_name[f"{NAME}-state"]["matchConstraints"]["resourceRules"] for name in each["resources"]
    }
    assert kinds == {"configmaps", "leases"}
    assert f'"{NAME}-breaker"' in texts[f"{NAME}-state"]
    for account in ("accelkit-extender", "accelkit-node-agent", "accelkit-cache-controller", "accelkit-driver", NAME):
        assert f'"{account}"' in texts[f"{NAME}-jobs"]
    # All fields but one, so that a field of a later Kubernetes is compared too.
    for part, but in (("spec", "taints"), ("status", "conditions")):
        assert f'dyn(object.{part}).all(field, field in ["{but}"]' in texts[NAME]
        assert f'dyn(oldObject.{part}).all(field, field in ["{but}"]' in texts[NAME]


def test_removal_deletes_service_before_undoing_its_changes():
    tasks = [each["name"] for each in read_yaml(ROOT / "roles/remediation/tasks/remove.yml")]
    assert tasks.index("Delete the remediation objects") < tasks.index(
        "Revert the changes that remediation made on the nodes"
    )


def test_on_mode_is_rejected_without_admission_policies():
    tasks = PREFLIGHT[:2]
    judge = Environment(autoescape=True).compile_expression
    for mode, admission, accepted in (("on", True, True), ("on", False, False), ("dry-run", False, True)):
        given = {"remediation_mode": mode, "__remediation_admission": admission}
        assert all(judge(each["ansible.builtin.assert"]["that"])(given) for each in tasks) is accepted
    assert not judge(tasks[0]["ansible.builtin.assert"]["that"])({"remediation_mode": "off"})


def template(*, suspend=True, **metadata):
    """A CronJob as a user writes it, in accelkit's namespace unless another one is named."""
    spec = {"schedule": "@yearly"} | ({"suspend": True} if suspend else {})
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "reset", **metadata}, "spec": spec}


# By name: what the cluster has (None where it is not asked), what files bring by stage, and what is told of it.
TEMPLATES = {
    "there": ([template()], {}, ""),
    "absent": ([], {}, "CronJob reset in the namespace accelkit does not exist; create it"),
    "running": ([template(suspend=False)], {}, "is not suspended; set suspend: true, or leave reset_job"),
    "brought after drivers": (None, {"driver": [template()], "device-plugin": None}, ""),
    "brought after the agent": (None, {"device-plugin": [template(name="other"), template(namespace="accelkit")]}, ""),
    "brought elsewhere": ([], {"driver": [template(namespace="other")]}, "does not exist"),
    "brought, whatever is there": (None, {"driver": [template(suspend=False)], "monitoring": [template()]}, ""),
    "brought running": (None, {"driver": [template(suspend=False)]}, "is not suspended"),
    "another kind": ([], {"driver": [template() | {"kind": "Job"}]}, "does not exist"),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the preflight says of the template of Jobs in each case; run by one run."""
    folder = tmp_path_factory.mktemp("templates")
    looked, judged = PREFLIGHT[2:]
    assert looked["register"] == "remediation_template"
    tasks = []
    for name, (there, brought, _) in TEMPLATES.items():
        files = {}
        for stage, listed in brought.items():
            files[stage] = listed and [str(folder / f"{name} {stage}.yaml")]
            for file in files[stage] or ():
                (folder / file).write_text("---\n".join(json.dumps(each) + "\n" for each in listed))
        given = {"accelkit_remediation": ON, "accelkit_stage_manifests": files}
        # Where it was not looked for, nothing was found.
        found = {"resources": there} if there is not None else {"skipped": True}
        tasks += [
            {"ansible.builtin.set_fact": {**given, "remediation_template": found}},
            {"ansible.builtin.debug": {}, "when": looked["when"], "register": "asked"},
            {**judged, "register": "answer", "ignore_errors": True},
            {
                "ansible.builtin.copy": {
                    "content": "{{ [asked is not skipped, answer.msg if answer is failed else ''] | to_json }}",
                    "dest": str(folder / f"{name}.json"),
                }
            },
        ]
    run_play(folder, {"vars_files": list_variables("remediation"), "tasks": tasks}, seconds=200)
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in TEMPLATES}


@pytest.mark.parametrize("name", TEMPLATES)
def test_missing_or_running_job_template_is_rejected_in_preflight(told, name):
    there, _, expected = TEMPLATES[name]
    looked, said = told[name]
    assert looked is (there is not None)
    assert expected in said if expected else said == ""
