from ansible_collections.accelkit.kubernetes.plugins.modules import access_check

from accelkit.install.access import AccessRule, ResourceAttributes

GIVEN = {
    "namespaces": ["accelkit", "kube-system"],
    "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}],
}


def test_rights_that_are_there_pass(run_module, stub):
    asked = stub(access_check, "find_denied", [])
    answer = run_module(access_check, GIVEN)
    assert (answer["changed"], answer["denied"]) == (False, [])
    assert asked == [(([AccessRule(("",), ("nodes",), ("patch",))], ["accelkit", "kube-system"]), {})]


def test_rights_that_are_missing_are_told_with_what_gives_them(run_module, stub):
    daemon_sets = ResourceAttributes("apps", "daemonsets", "", "create", "accelkit")
    stub(access_check, "find_denied", [daemon_sets, ResourceAttributes("", "nodes", "", "get")])
    answer = run_module(access_check, GIVEN)
    assert answer["failed"]
    assert answer["denied"] == ["create daemonsets.apps in accelkit", "get nodes"]
    assert "may not create daemonsets.apps in accelkit, get nodes; let an administrator" in answer["msg"]


def test_rights_that_are_only_asked_for_are_told_and_no_failure(run_module, stub):
    stub(access_check, "find_denied", [ResourceAttributes("", "pods", "", "create", "accelkit")])
    answer = run_module(access_check, {**GIVEN, "required": False})
    assert (answer.get("failed"), answer["denied"]) == (None, ["create pods in accelkit"])
