import asyncio

import pytest

from accelkit.errors import ApiError, PodGoneError
from accelkit.extender import bindings as module
from accelkit.extender.bindings import read_pod, write_binding
from accelkit.kube.paths import PODS
from accelkit.model.pod import PodRef

POD = PodRef("d", "p", "uid-p")
PATH = "/api/v1/namespaces/d/pods/p"


@pytest.fixture
def api(api):
    api.store(PODS, {"metadata": {"name": "p", "namespace": "d", "uid": "uid-p"}, "spec": {"containers": []}})
    return api


@pytest.mark.parametrize("annotations", [{}, {"accelkit.io/assignment": "{}"}])
async def test_binding_contains_pod_uid_node_and_annotations(api, annotations):
    await write_binding(api, POD, "n", annotations)
    (request,) = api.requests
    assert (request.method, request.path, request.query) == ("POST", f"{PATH}/binding", {"timeout": "5s"})
    assert request.body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "p",
            "namespace": "d",
            "uid": "uid-p",
            **({"annotations": annotations} if annotations else {}),
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    }
    assert api.objects[PATH]["spec"]["nodeName"] == "n"


async def test_binding_timeout_has_unknown_outcome(api, monkeypatch):
    monkeypatch.setattr(module, "SEND_SECONDS", 0.01)
    api.before.append(lambda _: asyncio.sleep(60))
    with pytest.raises(ApiError, match="no response within 0 s") as lost:
        await write_binding(api, POD, "n", {})
    assert lost.value.unanswered


async def test_read_pod_by_name_checks_its_uid(api):
    assert (await read_pod(api, POD)).metadata.uid == "uid-p"
    with pytest.raises(PodGoneError, match=r"pod d/p has been replaced \(UID uid-p, not uid-q\)"):
        await read_pod(api, PodRef("d", "p", "uid-q"))


@pytest.mark.parametrize("text", [b"{", b'{"metadata": 1}', b'{"metadata": {"uid": "\xff"}}'])
async def test_unreadable_pod_has_unknown_outcome(api, text):
    api.documents[PATH] = text
    with pytest.raises(ApiError, match="cannot read pod d/p: ") as unreadable:
        await read_pod(api, POD)
    assert unreadable.value.unanswered
