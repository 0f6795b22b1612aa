"""The init container of a private copy: as whom it runs, and what it may take."""

import pytest
from webhook_pods import CLAIM, PINNED, change, changed, make_cache, make_pod, mount, volumes, writable_claims

from accelkit.cachecontroller.webhook.copying import PREFIX
from accelkit.model.keys import CACHE_MOUNT_ANNOTATION


def filling(pod):
    """The init container that fills the copy of a pod that writes."""
    (found,) = [
        each for each in changed(pod, make_cache())["spec"]["initContainers"] if each["name"].startswith(PREFIX)
    ]
    return found


def test_copy_container_meets_restricted_pod_security_with_user_of_pod():
    context = filling(make_pod(mount()))["securityContext"]
    assert context == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    other = {"name": "other", "image": "x", "securityContext": {"runAsUser": 9}, "volumeMounts": [mount()]}
    pod = make_pod(mount(), beside=[other], securityContext={"runAsUser": 1000})
    assert filling(pod)["securityContext"]["runAsUser"] == 1000


@pytest.mark.parametrize(
    ("of_pod", "of_main", "user", "group"),
    [
        ({}, {}, None, None),
        ({"runAsUser": 1000, "runAsGroup": 2000, "fsGroup": 3000}, {}, 1000, 2000),
        ({"runAsUser": 1000}, {"runAsUser": 7, "runAsGroup": 8}, 7, 8),
        ({}, {"runAsUser": 7}, 7, None),
        ({"runAsUser": 0}, {}, 65532, None),
        ({"runAsUser": 5}, {"runAsUser": 0}, 5, None),
        ({"runAsNonRoot": True}, {}, None, None),
    ],
)
def test_copy_container_runs_as_workload_user_and_never_as_root(of_pod, of_main, user, group):
    pod = make_pod(mount(), main={"securityContext": of_main}, securityContext=of_pod)
    context = filling(pod)["securityContext"]
    assert (context.get("runAsUser"), context.get("runAsGroup")) == (user, group)
    assert context["runAsNonRoot"] is True


AMOUNT = {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, {"requests": {"cpu": "10m", "memory": "64Mi"}}),
        ({"cpu": "4", "memory": "8Gi"}, AMOUNT),
        ({"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 1}, AMOUNT),
        (
            {"cpu": "100m", "memory": "128Mi"},
            {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "100m", "memory": "128Mi"}},
        ),
        ({"memory": "8Gi"}, {"requests": {"cpu": "10m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}}),
        ({"cpu": "nonsense", "memory": "8Gi"}, AMOUNT),
    ],
)
def test_copy_container_keeps_qos_class_and_requests_of_pod(limits, expected):
    assert filling(make_pod(mount(), main={"resources": {"limits": limits}}))["resources"] == expected


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize(
    ("limits", "cache_bytes", "warned"),
    [
        ([None], 8 << 30, False),
        (["2Gi"], 8 << 30, True),
        (["2Gi", None], 8 << 30, True),
        (["4Gi", "4Gi"], 8 << 30, False),
        (["2Gi"], 0, False),
        (["nonsense"], 8 << 30, False),
    ],
)
def test_low_ephemeral_storage_limit_is_reported(limits, cache_bytes, warned, asked):
    first, *others = [{"resources": {"limits": {"ephemeral-storage": each}}} if each else {} for each in limits]
    beside = [{"name": f"c-{number}", "image": "x", **each} for number, each in enumerate(others)]
    if asked:
        pod = make_pod(claim="", main=first, beside=beside, annotations={CACHE_MOUNT_ANNOTATION: CLAIM})
    else:
        pod = make_pod(mount(), main=first, beside=beside)
    done = change(pod, make_cache(cache_bytes=cache_bytes))
    assert ["will evict the pod" in each for each in done.warnings] == [True] * warned


def test_root_init_container_changes_owners_only_in_private_copy():
    fixing = {
        "name": "fix-permissions",
        "image": "fedora",
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [mount()],
    }
    main = {"securityContext": {"runAsUser": 1000, "runAsNonRoot": True}}
    pod = make_pod(mount(), main=main, init=[fixing], securityContext={"fsGroup": 1000})
    after = changed(pod, make_cache())
    copy, fixed = after["spec"]["initContainers"]
    assert (copy["name"], fixed["securityContext"]) == (fixed["volumeMounts"][0]["name"], {"runAsUser": 0})
    assert (copy["securityContext"]["runAsUser"], copy["securityContext"]["runAsNonRoot"]) == (1000, True)
    assert after["spec"]["securityContext"] == {"fsGroup": 1000}
    assert writable_claims(after) == []


@pytest.mark.parametrize("read_only", [True, False])
def test_sidecar_that_starts_first_writes_to_private_copy(read_only):
    sidecar = {"name": "warm", "image": "x", "restartPolicy": "Always", "volumeMounts": [mount(subPath="torch")]}
    after = changed(make_pod(mount(readOnly=read_only), init=[sidecar]), make_cache())
    copy, warm = after["spec"]["initContainers"]
    assert copy["name"].startswith(PREFIX)
    assert warm["volumeMounts"] == [mount(volume=copy["name"], subPath="torch")]
    assert after["spec"]["containers"][0]["volumeMounts"] == [mount(volume=copy["name"], readOnly=read_only)]
    assert writable_claims(after) == []


def test_container_added_without_webhook_cannot_write_to_claim():
    # As `kubectl debug` adds it: volumes cannot be changed any more.
    for pod in (make_pod(mount(readOnly=True)), make_pod(mount()), make_pod()):
        after = changed(pod, make_cache())
        assert volumes(after)["files"] == {"persistentVolumeClaim": {"claimName": PINNED, "readOnly": True}}
        late = {"name": "debugger", "image": "x", "volumeMounts": [mount(readOnly=False)]}
        after["spec"]["containers"].append(late)
        assert writable_claims(after) == []
