import re
from pathlib import Path

import pytest

from accelkit.enablement.work import reasons
from accelkit.enablement.work.findings import build_result, failed
from accelkit.enablement.work.reasons import NEXT_ACTIONS
from accelkit.model.stage import MAX_EVIDENCE, NodeState

ROOM = Path(reasons.__file__).parent


def test_each_work_reason_is_used_and_has_next_action():
    text = "".join(path.read_text() for path in ROOM.rglob("*.py") if path.name != "reasons.py")
    given = set(re.findall(r'"([A-Z][A-Za-z]+)"', text))
    assert set(NEXT_ACTIONS) <= given
    called = re.findall(r'(?:failed|unknown|WorkError)\(\s*"(\w+)"', text)
    assert set(called) <= set(NEXT_ACTIONS)


@pytest.mark.parametrize("reason", NEXT_ACTIONS)
def test_next_action_names_node_and_namespace(reason):
    result = build_result(failed(reason, "seen"), NodeState(), 0.0, node="n" * 63, namespace="cards")
    assert not {*"{}"} & {*result.next_action}
    assert "--namespace accelkit" not in result.next_action
    assert 0 < len(result.next_action) <= MAX_EVIDENCE
    assert "n" * 63 in result.next_action or "{node}" not in NEXT_ACTIONS[reason]


def test_next_action_for_logs_names_namespace_of_agents():
    result = build_result(failed("NotAdmitted", "seen"), NodeState(), 0.0, node="n", namespace="cards")
    assert "kubectl --namespace cards logs" in result.next_action
