import msgspec
import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError
from accelkit.install.access import AccessRule, ResourceAttributes, find_denied


class Reviewer(FakeApi):
    """An API server that allows all but these rights."""

    def __init__(self, *denied):
        super().__init__()
        self.denied = denied
        self.asked = []

    def _create(self, request):
        assert request.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        attributes = {"group": "", "subresource": "", **request.body["spec"]["resourceAttributes"]}
        right = str(msgspec.convert(attributes, ResourceAttributes))
        self.asked.append(right)
        return msgspec.json.encode({"status": {"allowed": right not in self.denied}})


RULES = [
    AccessRule(("",), ("nodes", "nodes/status"), ("list", "patch")),
    AccessRule(("apps",), ("daemonsets",), ("create", "list")),
]


async def test_each_permission_is_reviewed_once_in_required_namespaces():
    api = Reviewer()
    assert await find_denied(api, [*RULES, *RULES], ["accelkit", "kube-system"]) == []
    assert sorted(api.asked) == [
        "create daemonsets.apps in accelkit",
        "create daemonsets.apps in kube-system",
        "list daemonsets.apps",
        "list nodes",
        "list nodes/status",
        "patch nodes",
        "patch nodes/status",
    ]


async def test_denied_permissions_are_reported():
    api = Reviewer("patch nodes", "create daemonsets.apps in accelkit")
    assert [str(each) for each in await find_denied(api, RULES, ["accelkit"])] == [
        "patch nodes",
        "create daemonsets.apps in accelkit",
    ]


async def test_unreachable_api_server_raises_api_error():
    api = Reviewer()
    api.fail(ApiError("no answer"), times=None)
    with pytest.raises(ApiError, match="no answer"):
        await find_denied(api, RULES, ["accelkit"])
