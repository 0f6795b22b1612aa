from __future__ import annotations

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.accelkit.kubernetes.plugins.modules import node_partition, toleration_check

from accelkit.enablement.partitioning.admission import Tolerance
from accelkit.enablement.partitioning.applying import Applied, Partition
from accelkit.enablement.partitioning.tolerations import Intolerant

MEMORY, CARDS = "accelkit.io/memory", "accelkit.io/cards"


@pytest.fixture
def calls(monkeypatch, kubeconfig):
    made = []

    def record(name, applied):
        async def act(_api, *given, check):
            made.append((name, given, check))
            return applied

        return act

    applied = Applied({"a": ()}, {"a": ("label x=y",)}, ("a",))
    monkeypatch.setattr(node_partition, "apply_partition", record("apply", applied))
    monkeypatch.setattr(node_partition, "remove_partition", record("remove", Applied({}, {})))
    return made


def test_present_applies(run_module, calls):
    given = {"taints": [MEMORY], "tainted": ["a"], "roles": {"training": ["a"]}, "pools": {"big": ["b"]}}
    answer = run_module(node_partition, given, check=True)
    assert calls == [("apply", (Partition((MEMORY,), ("a",), {"training": ["a"]}, {"big": ["b"]}),), True)]
    assert answer["changed"]
    assert answer["tainted"] == ["a"]
    assert answer["diff"] == {"before": {"a": []}, "after": {"a": ["label x=y"]}}


def test_the_taints_have_to_leave_its_own_pods_a_node(run_module, calls):
    pods = {"name": "the extender", "setting": "extender_tolerations", "spec": {"nodeSelector": {"a": "b"}}}
    run_module(node_partition, {"taints": [MEMORY], "own_pods": [pods]})
    [[_api, [partition], _options]] = calls
    assert [(str(each), each.spec.node_selector) for each in partition.own_pods] == [
        ("the extender (extender_tolerations)", {"a": "b"})
    ]


def test_absent_takes_everything_back(run_module, calls):
    assert run_module(node_partition, {"state": "absent"})["changed"] is False
    assert calls == [("remove", (), False)]


@pytest.fixture
def checked(monkeypatch, kubeconfig):
    asked, warned = [], []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _module, text: warned.append(text))
    pods = tuple(Intolerant("Pod", "n", f"p{each:02}", (MEMORY,)) for each in range(52))

    async def check(_api, **given):
        asked.append(given)
        return Tolerance({CARDS: (MEMORY,)}, {MEMORY: "quota"}, pods)

    monkeypatch.setattr(toleration_check, "check_tolerations", check)
    return asked, warned


GIVEN = {"taints": [MEMORY], "tainted": ["a"], "resources": [MEMORY, CARDS]}


def test_what_is_kept_out_is_warned_of_with_the_next_step(run_module, checked):
    asked, warned = checked
    answer = run_module(toleration_check, GIVEN)
    assert asked == [
        {
            "keys": [MEMORY],
            "tainted": ["a"],
            "resources": [MEMORY, CARDS],
            "asking": [MEMORY, CARDS],
            "namespace": "accelkit",
        }
    ]
    assert len(answer["intolerant"]) == 50
    assert [each.partition(":")[0] for each in warned] == ["SharesRepelled", "AdmissionUnknown", "TolerationMissing"]
    assert all("{key: accelkit.io/memory, operator: Exists, effect: NoSchedule}" in each for each in warned)
    assert "and 2 more" in warned[2]
    assert "failed" not in answer


def test_check_mode_asks_for_no_pod(run_module, checked):
    asked, _warned = checked
    run_module(toleration_check, GIVEN, check=True)
    assert asked[0]["resources"] == []
    assert asked[0]["asking"] == [MEMORY, CARDS]
