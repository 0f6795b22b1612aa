"""The pods that programs really create, judged by the constraints that are applied for them."""

import msgspec
import pytest
from pretended_cluster import FIRST, OURS, SETTINGS, Cluster, cache_of

from accelkit.cachecontroller.filling import ImageDelivery
from accelkit.cachecontroller.filling.manifests import write_job
from accelkit.cachecontroller.filling.objects import DAEMON_SETS, Target
from accelkit.enablement.openshift.account_constraints import write_created_constraints
from accelkit.enablement.openshift.admission import find_violations
from accelkit.enablement.openshift.constraints import read_constraints
from accelkit.enablement.work.pods import CheckPods, build_pod

ALLOWED = read_constraints(write_created_constraints(OURS, {}))


@pytest.mark.parametrize("check", [False, True])
def test_fill_job_pods_are_admitted(check):
    target = Target(cache_of(imagePullSecrets=[{"name": "s"}]), "team", FIRST, "/cache")
    job = write_job(target, SETTINGS, name="j", claim="c", shared="s", attempt=1, check=check)
    spec = job["spec"]["template"]["spec"]
    assert "serviceAccountName" not in spec
    assert find_violations(spec, ALLOWED) == []


def test_prefetch_pods_are_admitted():
    cluster, cache = Cluster(), cache_of(delivery="image")
    status = msgspec.structs.replace(cache.status, cache_format="vllm", capture_path="/cache")
    cluster.carry_out(ImageDelivery(SETTINGS).plan(msgspec.structs.replace(cache, status=status), cluster))
    (body,) = cluster.all(DAEMON_SETS, OURS).values()
    assert find_violations(body["spec"]["template"]["spec"], ALLOWED) == []


def test_check_pods_are_admitted():
    pod = build_pod("node-1", "accelkit.io/memory", CheckPods(OURS, "image", runtime_class="nvidia"), "run")
    assert "serviceAccountName" not in pod["spec"]
    assert find_violations(pod["spec"], ALLOWED) == []
