from ansible_collections.accelkit.kubernetes.plugins.modules import openshift_info

from accelkit.enablement.openshift.detection import OpenShift


def test_detected_openshift_apis_are_returned(run_module, stub):
    found = {"constraints": True, "machines": False, "autoscaling": True}
    stub(openshift_info, "find_openshift", OpenShift(**found))
    answer = run_module(openshift_info, {})
    assert answer.items() >= {"changed": False, **found}.items()
