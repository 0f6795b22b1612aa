from __future__ import annotations

import pytest

from accelkit.errors import NotLeadingError, NotReadyError
from accelkit.extender.readiness import Readiness


def readiness(*, synced=True, silence=0.0, **options):
    return Readiness(synced=lambda: synced, silent_seconds=lambda: silence, **options)


def test_who_is_alone_and_has_read_the_cluster_may_do_everything():
    alone = readiness()
    assert alone.leads() is True
    for check in (alone.check_synced, alone.check_current, alone.check_leading, alone.check_binding):
        check()


def test_before_the_cluster_was_read_nothing_is_shown_or_decided():
    early = readiness(synced=False)
    for check in (early.check_synced, early.check_current):
        with pytest.raises(NotReadyError, match="the cluster has not been read yet"):
            check()


@pytest.mark.parametrize(("silence", "may"), [(5.0, True), (5.1, False)])
def test_an_api_server_that_is_away_for_more_than_five_seconds_ends_decisions_but_not_what_is_shown(silence, may):
    silent = readiness(silence=silence)
    silent.check_synced()
    if may:
        silent.check_current()
    else:
        with pytest.raises(NotReadyError, match="the API server has been away for 5 s"):
            silent.check_current()


@pytest.mark.parametrize("leader", ["", "other"])
def test_of_several_replicas_the_leader_alone_answers_and_binds(world, leader):
    world.leader = leader
    one = readiness(leadership=world)
    assert one.leads() is (not leader)
    for check in (one.check_leading, one.check_binding):
        if leader:
            with pytest.raises(NotLeadingError, match="other leads"):
                check()
        else:
            check()


def test_nothing_is_bound_while_the_pods_are_read_again():
    again = readiness(pods_current=lambda: False)
    again.check_current()
    again.check_leading()
    with pytest.raises(NotReadyError, match="the pods are being read again"):
        again.check_binding()
