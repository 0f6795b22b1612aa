"""The init container of a private copy: as whom it runs, and what it may take."""

from __future__ import annotations

import pytest
from webhook_pods import changed, make_cache, make_pod, mount

from accelkit.cachecontroller.webhook.copying import PREFIX


def filling(pod):
    """The init container that fills the copy of a pod that writes."""
    (found,) = [
        each for each in changed(pod, make_cache())["spec"]["initContainers"] if each["name"].startswith(PREFIX)
    ]
    return found


def test_it_is_as_the_strictest_pod_security_wants_it():
    context = filling(make_pod(mount()))["securityContext"]
    assert context == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


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
def test_it_runs_as_the_user_of_the_workload_and_never_as_root(of_pod, of_main, user, group):
    pod = make_pod(mount(), main={"securityContext": of_main}, securityContext=of_pod)
    context = filling(pod)["securityContext"]
    assert (context.get("runAsUser"), context.get("runAsGroup")) == (user, group)
    assert context["runAsNonRoot"] is True


def test_containers_of_several_users_share_a_copy_of_the_pods_user():
    other = {"name": "other", "image": "x", "securityContext": {"runAsUser": 9}, "volumeMounts": [mount()]}
    pod = make_pod(mount(), beside=[other], securityContext={"runAsUser": 1000})
    assert filling(pod)["securityContext"]["runAsUser"] == 1000


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
def test_it_changes_neither_the_class_of_the_pod_nor_what_it_needs(limits, expected):
    assert filling(make_pod(mount(), main={"resources": {"limits": limits}}))["resources"] == expected
