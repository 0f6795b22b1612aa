from http import HTTPStatus

import pytest

from accelkit.enablement.ownership.fate import Fate
from accelkit.enablement.ownership.survey import survey_owners
from accelkit.errors import ApiError, ConfigurationError
from accelkit.kube.paths import NODES

DAEMON_SETS = "/apis/apps/v1/daemonsets"
SLICES = "/apis/resource.k8s.io/{}/resourceslices"


def refusal(status):
    return ApiError("no", status=status)


@pytest.fixture
def api(api):
    api.store(NODES, {"metadata": {"name": "free"}})
    api.store(NODES, {"metadata": {"name": "out", "labels": {"accelkit.io/share": "false"}}})
    amounts = {"nvidia.com/gpu": "8"}
    api.store(NODES, {"metadata": {"name": "whole"}, "status": {"allocatable": amounts, "capacity": amounts}})
    return api


async def test_survey_skips_excluded_nodes_unless_named(api):
    look = await survey_owners(api)
    assert {name: each.fate for name, each in look.judgements.items()} == {
        "free": Fate.FREE,
        "whole": Fate.LEFT_ALONE,
    }
    assert look.notes == ()
    assert api.writes == []
    assert set((await survey_owners(api, nodes=["out"])).judgements) == {"out"}


async def test_unknown_node_is_named_in_error(api):
    with pytest.raises(ConfigurationError, match="cannot find node gone; choose from these nodes: free, out, whole"):
        await survey_owners(api, nodes=["gone"])


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
async def test_resource_slices_are_read_in_served_api_version(api, version):
    for other in {"v1", "v1beta2", "v1beta1"} - {version}:
        api.fail(refusal(HTTPStatus.NOT_FOUND), "GET", SLICES.format(other), times=None)
    spec = {"driver": "gpu.nvidia.com", "nodeName": "free", "devices": [{"name": "gpu-0"}]}
    api.store(SLICES.format(version), {"metadata": {"name": "s"}, "spec": spec})
    assert (await survey_owners(api)).judgements["free"].fate is Fate.LEFT_ALONE


async def test_refused_list_is_noted_and_remaining_evidence_is_used(api):
    api.store(NODES, {"metadata": {"name": "marked", "labels": {"nvidia.com/gpu.deploy.device-plugin": "true"}}})
    assert (await survey_owners(api)).judgements["marked"].fate is Fate.FREE
    api.fail(refusal(HTTPStatus.FORBIDDEN), "GET", "daemonsets", times=None)
    look = await survey_owners(api)
    assert look.judgements["marked"].fate is Fate.LEFT_ALONE
    [note] = look.notes
    assert note.startswith("OwnersUnknown: the API server refuses to list DaemonSets")


async def test_api_server_failure_is_not_treated_as_absence(api):
    api.fail(refusal(HTTPStatus.INTERNAL_SERVER_ERROR), "GET", "resourceslices", times=None)
    with pytest.raises(ApiError):
        await survey_owners(api)
