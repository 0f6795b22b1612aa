"""What the programs of kernel caches may do, as the role gives it and as the documents tell it."""

import msgspec
import pytest
from kernel_cache_cases import render_cases
from rendering import ROOT

from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.command import cache_controller, read_options
from accelkit.cachecontroller.delivery import FillSettings
from accelkit.cachecontroller.filling import ImageDelivery
from accelkit.gkm.objects import Cache
from accelkit.install.certificates.secrets import WEBHOOK

CONTROLLER, AGENT = "accelkit-cache-controller", "accelkit-cache-agent"
STATUS = {"resolvedDigest": f"sha256:{'1' * 64}", "mountPath": "/c", "cacheFormat": "vllm", "capturePath": "/c"}
CASES = {
    "defaults": {},
    "other": {"kernel_cache_webhook_secret": "tls-of-ours"},
    "mirrors": {
        "kernel_cache_registry_mirrors": {"docker.io": ["a.test", "b.test"]},
        "kernel_cache_registry_plain_http": ["a.test"],
        "kernel_cache_webhook": False,
    },
}
# Rendered once, by one process.
pytestmark = [pytest.mark.xdist_group("kernel_cache_rights"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """All objects by case, kind and name."""
    return render_cases(tmp_path_factory.mktemp("rights"), CASES)


@pytest.mark.parametrize(("case", "secret"), [("defaults", WEBHOOK), ("other", "tls-of-ours")])
def test_policy_forbids_jobs_with_webhook_secret(rendered, case, secret):
    rules = rendered[case, "ValidatingAdmissionPolicy", f"{CONTROLLER}-pods"]["spec"]["validations"]
    (told,) = [each["expression"] for each in rules if "secretName" in each["expression"]]
    assert f'"{secret}"' in told
    assert f'"{WEBHOOK}"' in told


def test_policy_allows_arguments_and_command_of_jobs_of_controller(rendered):
    spec = rendered["mirrors", "ValidatingAdmissionPolicy", f"{CONTROLLER}-pods"]["spec"]
    (told,) = [each["expression"] for each in spec["validations"] if "--mount-path" in each["expression"]]
    deployment = rendered["mirrors", "Deployment", CONTROLLER]["spec"]["template"]["spec"]["containers"][0]
    given = read_options(cache_controller.make_context("x", deployment["args"][1:]).params).fill.registry_arguments
    assert given == ("--mirror=docker.io=a.test", "--mirror=docker.io=b.test", "--plain-http=a.test")
    assert all(f'"{each}"' in told for each in given)
    document = {"metadata": {"name": "x", "namespace": "y"}, "spec": {"image": "quay.io/a/b:v1"}, "status": STATUS}
    cache = msgspec.json.decode(msgspec.json.encode(document), type=Cache)
    ((_, body),) = ImageDelivery(FillSettings("i", "accelkit")).plan(cache, ClusterState(str)).create
    command = body["spec"]["template"]["spec"]["containers"][0]["command"]
    assert f"'{command[2]}'" in told


def test_policies_cover_each_kind_that_controller_writes(rendered):
    def expand(rules):
        return {resource for rule in rules for resource in rule["resources"] if "/" not in resource}

    names = (CONTROLLER, f"{CONTROLLER}-pods", f"{CONTROLLER}-volumes")
    specs = [rendered["defaults", "ValidatingAdmissionPolicy", name]["spec"] for name in names]
    judged = {each for spec in specs for each in expand(spec["matchConstraints"]["resourceRules"])}
    roles = [rendered["defaults", kind, CONTROLLER] for kind in ("Role", "ClusterRole")]
    writes = [rule for role in roles for rule in role["rules"] if {"create", "patch", "delete"} & {*rule["verbs"]}]
    # Events say nothing to a program.
    assert expand(writes) - judged == {"events"}
    for spec in specs:
        assert spec["failurePolicy"] == "Fail"
        assert [each["expression"] for each in spec["matchConditions"]] == [
            f'request.userInfo.username == "system:serviceaccount:accelkit:{CONTROLLER}"'
        ]


def test_security_page_lists_all_rights_of_roles(rendered):
    """The table of docs/explanation/security.md against the roles of both programs."""
    page = (ROOT / "docs/explanation/security.md").read_text()
    text = page.partition("### Rights of the programs of kernel caches")[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| c")
    ]
    told = {
        (program, where, resource.strip("` "), frozenset(verbs.split(", ")))
        for program, where, resources, verbs in rows
        for resource in resources.split(", ")
    }
    given = {
        (program, where, resource, frozenset(rule["verbs"]))
        for name, program in ((CONTROLLER, "cache controller"), (AGENT, "cache agent"))
        for kind, where in (("ClusterRole", "cluster"), ("Role", "accelkit's namespace"))
        for rule in rendered.get(("defaults", kind, name), {}).get("rules", ())
        for resource in rule["resources"]
    }
    assert told == given != set()
