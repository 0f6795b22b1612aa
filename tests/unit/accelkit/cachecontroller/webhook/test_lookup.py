"""Lookup of caches that the watch has not reported."""

import asyncio

import msgspec
import pytest
from webhook_pods import DIGEST, NAMESPACE

from accelkit.cachecontroller.webhook import lookup
from accelkit.cachecontroller.webhook.lookup import CacheLookup
from accelkit.errors import ApiError

OWN, CLUSTER = f"/apis/gkm.io/v1alpha1/namespaces/{NAMESPACE}/gkmcaches/", "/apis/gkm.io/v1alpha1/clustergkmcaches/"


class Api:
    """An API server with these caches."""

    def __init__(self, *paths, failing=None):
        self.asked, self.together, self.most = [], 0, 0
        self._paths, self._failing = paths, failing

    async def get(self, path):
        self.asked.append(path)
        self.together += 1
        self.most = max(self.most, self.together)
        await asyncio.sleep(0)
        self.together -= 1
        if self._failing:
            raise self._failing
        if path not in self._paths:
            raise ApiError("not found", status=404)
        namespace = NAMESPACE if path.startswith(OWN) else ""
        metadata = {"name": path.rpartition("/")[2], **({"namespace": namespace} if namespace else {})}
        return msgspec.json.encode({"metadata": metadata, "spec": {"image": "r/i"}})


@pytest.mark.parametrize("claim", ["kernels", f"kernels-{DIGEST[7:19]}"])
async def test_lookup_by_claim_name_reads_namespaced_and_cluster_caches(claim):
    api = Api(f"{OWN}kernels", f"{CLUSTER}kernels")
    found = await CacheLookup(api).find(NAMESPACE, [claim, claim])
    assert sorted(each.key for each in found) == ["/kernels", f"{NAMESPACE}/kernels"]
    assert len(api.asked) == len(set(api.asked))


@pytest.mark.parametrize(
    ("namespace", "claim"),
    [
        ("../../x", "kernels"),
        ("", "kernels"),
        (NAMESPACE, "../../../../api/v1/secrets"),
        (NAMESPACE, "a/b"),
        (NAMESPACE, "a?watch=1"),
        (NAMESPACE, ""),
        (NAMESPACE, "Upper"),
        (NAMESPACE, "k" * 254),
        (NAMESPACE, "-"),
    ],
)
async def test_invalid_name_is_never_used_in_request_path(namespace, claim):
    api = Api()
    assert await CacheLookup(api).find(namespace, [claim]) == []
    assert api.asked == []


async def test_lookups_are_bounded():
    api = Api(f"{OWN}c-000")
    finder = CacheLookup(api)
    names = [f"c-{number:03}" for number in range(500)]
    found = await asyncio.gather(*(finder.find(NAMESPACE, names) for _ in range(8)))
    assert [[each.key for each in some] for some in found] == [[f"{NAMESPACE}/c-000"]] * 8
    assert len(set(api.asked)) == 64
    assert api.most == 4


async def test_lookup_returns_nothing_after_api_error_or_timeout(caplog, monkeypatch):
    assert await CacheLookup(Api(failing=ApiError("the API server is away"))).find(NAMESPACE, ["kernels"]) == []
    assert "caches not looked up: namespace=models error=the API server is away" in caplog.text

    class Silent:
        async def get(self, _path):
            await asyncio.Event().wait()

    monkeypatch.setattr(lookup, "_SECONDS", 0.01)
    assert await CacheLookup(Silent()).find(NAMESPACE, ["kernels"]) == []
    assert "error=timeout" in caplog.text


async def test_unreadable_cache_is_omitted_from_lookup(caplog):
    class Odd(Api):
        async def get(self, path):
            return b"[]" if path == f"{OWN}odd" else await super().get(path)

    found = await CacheLookup(Odd(f"{OWN}good")).find(NAMESPACE, ["good", "odd"])
    assert [each.key for each in found] == [f"{NAMESPACE}/good"]
    assert "cache unreadable" in caplog.text
