from ansible_collections.accelkit.kubernetes.plugins.modules import access_check

from accelkit.install.access import AccessRule, ResourceAttributes

GIVEN = {
    "namespaces": ["accelkit", "kube-system"],
    "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}],
}


def test_granted_access_rules_pass(run_module, stub):
    asked = stub(access_check, "find_denied", [])
    answer = run_module(access_check, GIVEN)
    assert (answer["changed"], answer["denied"]) == (False, [])
    assert asked == [(([AccessRule(("",), ("nodes",), ("patch",))], ["accelkit", "kube-system"]), {})]


def test_denied_required_access_fails_with_next_step(run_module, stub):
    daemon_sets = ResourceAttributes("apps", "daemonsets", "", "create", "accelkit")
    stub(access_check, "find_denied", [daemon_sets, ResourceAttributes("", "nodes", "", "get")])
    answer = run_module(access_check, GIVEN)
    assert answer["failed"]
    assert answer["denied"] == ["create daemonsets.apps in accelkit", "get nodes"]
    assert "may not create daemonsets.apps in accelkit, get nodes; let an administrator" in answer["msg"]


def test_denied_optional_access_is_returned_without_failure(run_module, stub):
    stub(access_check, "find_denied", [ResourceAttributes("", "pods", "", "create", "accelkit")])
    answer = run_module(access_check, {**GIVEN, "required": False})
    assert (answer.get("failed"), answer["denied"]) == (None, ["create pods in accelkit"])
