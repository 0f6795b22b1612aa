"""The admission policies of the roles, as their templates make them; what they refuse is tested on an API server."""

import re

import msgspec
import pytest
from support.yaml import read_yaml
from test_roles import MANIFEST_ROLES, ROOT, Defaults, documents, objects, policies

from accelkit.vendors.dialects import list_dialect_names, load_dialect


@pytest.mark.parametrize("role", MANIFEST_ROLES)
def test_policies_are_rendered_only_with_admission_api_and_role_labels(role):
    assert policies(role, admission=False) == []
    made = policies(role)
    assert {each["kind"] for each in made} == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    component = objects(role)["ServiceAccount"]["metadata"]["labels"]["app.kubernetes.io/component"]
    for each in made:
        assert each["metadata"]["labels"]["app.kubernetes.io/component"] == component
        assert each["metadata"]["name"].startswith(MANIFEST_ROLES[role])
        assert each["spec"].get("failurePolicy", "Fail") == "Fail"
    bound = [each["spec"]["policyName"] for each in made if "policyName" in each["spec"]]
    assert bound == [each["metadata"]["name"] for each in made if "policyName" not in each["spec"]]


def test_no_policy_uses_built_in_parameter_kind():
    # The API server cannot watch such parameters again after the last binding that named their kind was deleted.
    for template in (ROOT / "roles").glob("*/*/*"):
        found = re.findall(r"^ *paramKind:(.*)", template.read_text(), re.MULTILINE) if template.is_file() else ()
        assert all("gkm.io/" in each for each in found), template


def find_policy(name, **changed):
    (found,) = [
        each
        for each in policies("extender", **changed)
        if each["metadata"]["name"] == name and each["kind"] == "ValidatingAdmissionPolicy"
    ]
    return found["spec"]


def test_assignment_keys_of_all_dialects_are_guarded_but_not_user_keys():
    (keys,) = [
        each["expression"]
        for each in find_policy("accelkit-extender-assignments")["variables"]
        if each["name"] == "changed"
    ]
    for name in list_dialect_names():
        dialect = load_dialect(name)
        assert all(f'"{key}"' in keys for key in dialect.assignment_keys)
        for rule in msgspec.structs.astuple(dialect.pod_rules) if dialect.pod_rules else ():
            assert f'"{rule}"' not in keys
    assert '"accelkit.io/assignment"' in keys
    assert "accelkit.io/request" not in keys


def test_monitoring_resources_are_guarded_like_card_resources():
    own = read_yaml(ROOT / "roles" / "extender" / "vars" / "main.yml")
    guarded = Defaults("extender", extender_dialects=["gas", "native"]).render(own["__extender_resources"])
    assert {"gpu.intel.com/i915", "gpu.intel.com/i915_monitoring", "accelkit.io/memory"} <= set(guarded)


def test_allowed_writers_and_exempt_namespaces_are_read_from_variables():
    other = "system:serviceaccount:kube-system:gcushare"
    given = {"extender_assignment_writers": [other], "extender_namespace": "x"}
    condition = find_policy("accelkit-extender-assignments", **given)["matchConditions"][0]["expression"]
    assert f'username in ["{other}"]' in condition
    assert '"system:serviceaccount:x:accelkit-node-agent"' in condition
    assert '"system:serviceaccount:x:accelkit-extender"' in condition
    guarding = {"extender_guard_all_pods": True, "extender_guard_exempt_namespaces": ["gpu-operator"], **given}
    condition = find_policy("accelkit-extender-cards", **guarding)["matchConditions"][1]["expression"]
    assert condition.startswith('!(request.namespace in ["x", "gpu-operator"]) ||')
    assert "namespace in" not in find_policy("accelkit-extender-cards", **given)["matchConditions"][1]["expression"]


def find_own(name, **changed):
    (found,) = [
        each
        for each in documents("extender", "account_policies.yaml.j2", **changed)
        if each and each["metadata"]["name"] == name and each["kind"] == "ValidatingAdmissionPolicy"
    ]
    return found["spec"]


def test_extender_policies_cover_its_objects_and_assignment_annotations():
    assert [each for each in documents("extender", "account_policies.yaml.j2", admission=False) if each] == []
    judged = find_own("accelkit-extender-objects")["matchConstraints"]["resourceRules"]
    assert [each["resources"] for each in judged] == [["leases"], ["endpointslices"], ["endpoints"]]
    assert all(each["operations"] == ["CREATE", "UPDATE", "DELETE"] for each in judged)
    plain, limits = (
        find_own("accelkit-extender-bindings", extender_container_limits=on)["validations"][0]["expression"]
        for on in (False, True)
    )
    assert '"accelkit.io/assignment"' in plain
    assert "cdi.k8s.io/" not in plain
    assert "cdi.k8s.io/" not in limits
    assert 'key.startsWith("nvidia.com/container.") && key.endsWith(".gpu-memory.limit")' in limits
    assert "gpu-memory" not in plain
