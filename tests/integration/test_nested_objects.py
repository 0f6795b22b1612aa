"""Pods with thousands of levels of JSON, which the API server accepts from any tenant: others are served as before."""

from __future__ import annotations

import msgspec
import pytest
from conftest import PODS
from extender_process import client_of
from support.waiting import until

from accelkit.kube.objects import delete_if_present

pytest_plugins = ["extender_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

# The API server accepts 10,000 levels of a whole object. With those of a list, no version of Python decodes so many.
LEVELS = 9_990
NESTED = msgspec.Raw(b'{"f:spec":' + b'{"f:a":' * LEVELS + b"{}" + b"}" * LEVELS + b"}")


async def test_deeply_nested_pod_does_not_block_extender(process, world):
    managed = {"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z"}
    managed |= {"fieldsType": "FieldsV1", "fieldsV1": NESTED}
    container = {"name": "main", "image": "busybox", "resources": {"limits": {"accelkit.io/memory": "1"}}}
    deep = {
        "metadata": {"name": "deep", "managedFields": [managed]},
        "spec": {"containers": [container], "schedulerName": "nobody"},
    }
    try:
        async with client_of(process) as client:
            node = await world.node(1, 24)
            await client.shows(node, lambda view: view["state"] == "shared")
            await world.api.post(PODS, deep)
            # The extender reads it by its watch, and after the restart by a list.
            assert await client.bind(await world.pod(8), node) == ""
        process.close()
        process.start()
        async with client_of(process) as client:
            await client.ready()
            assert await client.bind(await world.pod(8), node) == ""

            async def charged() -> bool:
                return await client.used(node) == 16

            await until(charged)
    finally:
        await delete_if_present(world.api, f"{PODS}/deep")
