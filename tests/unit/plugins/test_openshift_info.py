from __future__ import annotations

from ansible_collections.accelkit.kubernetes.plugins.modules import openshift_info

from accelkit.enablement.openshift.detection import OpenShift


def test_what_is_there_is_told(run_module, kubeconfig, monkeypatch):
    async def find(_api):
        return OpenShift(constraints=True, machines=False, autoscaling=True)

    monkeypatch.setattr(openshift_info, "find_openshift", find)
    answer = run_module(openshift_info, {})
    assert {key: answer[key] for key in ("changed", "constraints", "machines", "autoscaling")} == {
        "changed": False,
        "constraints": True,
        "machines": False,
        "autoscaling": True,
    }
