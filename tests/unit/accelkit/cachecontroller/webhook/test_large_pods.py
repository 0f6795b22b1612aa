"""Pods that are made to keep the webhook busy: others' reviews, the Lease and the probes wait for it."""

import itertools
import sys

import pytest
from webhook_pods import CLAIM, IMAGE, NAMESPACE, PINNED, make_cache, make_pod, mount

from accelkit.cachecontroller.webhook.mutation import Tools, mutate
from accelkit.cachecontroller.webhook.pod_size import MOST_OF_CACHES, MOST_PARTS
from accelkit.model.keys import CACHE_MOUNT_ANNOTATION


def make_many(count, claim=CLAIM, **fields):
    """A pod with as many volumes of a claim, each mounted."""
    pod = make_pod(*(mount(f"/{number}", f"v{number}") for number in range(count)), claim="", **fields)
    pod["spec"]["volumes"] = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim}} for number in range(count)
    ]
    return pod


def count_steps(pod, *caches):
    """What becomes of a pod, and how many lines of Python that took."""
    counter = itertools.count()

    def step(_frame, event, _arg):
        if event == "line":
            next(counter)
        return step

    former = sys.gettrace()
    sys.settrace(step)
    try:
        done = mutate(pod, NAMESPACE, caches, Tools(IMAGE))
    finally:
        sys.settrace(former)
    return done, next(counter)


def test_pod_with_too_many_cache_volumes_is_refused_before_mutation():
    few, steps = count_steps(make_many(MOST_OF_CACHES + 1), make_cache())
    many, more = count_steps(make_many(100 * MOST_OF_CACHES), make_cache())
    assert few.refusal == "the pod has 33 volumes with kernel caches, over the limit of 32"
    assert many.refusal.startswith("the pod has 3200 volumes with kernel caches")
    # A hundred times the volumes are no more than a hundred times the work.
    assert more < 110 * steps


@pytest.mark.parametrize(
    "fields",
    [
        {"beside": [{"name": f"c{number}"} for number in range(MOST_PARTS)]},
        {"main": {"env": [{"name": f"E{number}", "value": ""} for number in range(MOST_PARTS)]}},
        {"init": [{"name": "i", "volumeMounts": [mount(f"/m{number}") for number in range(MOST_PARTS)]}]},
    ],
    ids=["containers", "variables", "mounts"],
)
@pytest.mark.parametrize("claim", [CLAIM, "kernels-" + "00" * 6, ""])
def test_pod_with_too_many_parts_is_refused_if_cache_is_mounted(fields, claim):
    pod = make_pod(mount(), claim=claim, annotations={} if claim else {CACHE_MOUNT_ANNOTATION: CLAIM}, **fields)
    done = mutate(pod, NAMESPACE, [make_cache()], Tools(IMAGE))
    assert done.refusal.endswith("over the limit of 2000 for pods with kernel caches")
    assert not done.patch
    # One that does not is none of our business.
    other = make_pod(mount(), claim="data", **fields)
    assert mutate(other, NAMESPACE, [make_cache()], Tools(IMAGE)).refusal == ""


def test_mutation_of_largest_allowed_pod_has_bounded_cost():
    pod = make_many(MOST_OF_CACHES)
    pod["spec"]["containers"][0]["env"] = [{"name": f"E{number}"} for number in range(MOST_PARTS - 65)]
    done, steps = count_steps(pod, make_cache())
    assert done.patch
    assert steps < 300_000


def test_lookup_of_volumes_with_unknown_digest_has_linear_cost():
    def count(volumes, caches):
        pod = make_many(volumes, "other-" + "00" * 6)
        done, steps = count_steps(pod, *(make_cache(f"cache-{number}") for number in range(caches)))
        assert not done.refusal
        return steps

    # Each cache and each volume is one more, not each for each of the others.
    alone = count(1, 1)
    assert count(200, 200) < count(200, 1) + count(1, 200) + alone


def test_lookup_of_images_with_unknown_digest_has_linear_cost():
    def count(volumes, caches):
        pod = make_pod(claim="")
        image = {"reference": "registry.example/x@sha256:" + "00" * 32}
        pod["spec"]["volumes"] = [{"name": f"v{number}", "image": image} for number in range(volumes)]
        given = (make_cache(f"cache-{number}", delivery="image") for number in range(caches))
        return count_steps(pod, *given)[1]

    assert count(200, 200) < count(200, 1) + count(1, 200) + count(1, 1)


def test_lookup_of_containers_with_reserved_names_has_linear_cost():
    def count(containers):
        names = [f"accelkit-{number}" for number in range(containers)]
        init = [{"name": each, "volumeMounts": [mount("/x", each), mount("/y", PINNED)]} for each in names]
        pod = make_pod(claim="", init=init)
        pod["spec"]["volumes"] = [{"name": each, "emptyDir": {}} for each in names]
        return count_steps(pod, make_cache())[1]

    assert count(400) < 5 * count(100)
