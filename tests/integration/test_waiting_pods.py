"""Pods that wait for cards while site.yml installs accelkit, or changes the dialects that it serves."""

import json

import pytest
from conftest import Sandbox
from waiting_workloads import WaitingWorkloads

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

GCUSHARE = ("-e", json.dumps({"accelkit_dialects": ["gcushare"]}))


def test_pods_waiting_for_installation_are_placed_by_extender(installed):
    installed.waited.check()


@pytest.mark.long
async def test_pods_waiting_for_dialect_change_are_placed_by_extender():
    with Sandbox() as sandbox:
        native = WaitingWorkloads(sandbox, {"native": (6, {"accelkit.io/memory": "10"}, 6)})
        others = WaitingWorkloads(
            sandbox,
            {
                "shares": (2, {"enflame.com/gcu-memory": "9"}, 2),
                "too-large": (2, {"enflame.com/gcu-memory": "40"}, 0),
                "whole": (2, {"enflame.com/gcu-count": "1"}, 2),
            },
        )
        await native.create()
        await others.create()
        sandbox.playbook("site.yml")
        await native.settle()
        native.check()
        # Pods of the former dialect run on, and those of the new one have waited since before the installation.
        sandbox.playbook("site.yml", *GCUSHARE)
        await others.settle()
        others.check()
        await native.settle()
        native.check()
        more = WaitingWorkloads(sandbox, {"more": (2, {"accelkit.io/memory": "16"}, 2)})
        await more.create()
        sandbox.playbook("site.yml")
        await more.settle()
        more.check()
        await others.settle()
        others.check()
        await native.settle()
        native.check()
