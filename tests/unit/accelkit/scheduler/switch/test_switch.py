import os

import pytest
from scheduler_manifests import kubeadm_manifest, short_manifest
from switched_host import DyingHost, Killed, Restarted, Runner, desired, make_host, switch, tree

from accelkit.errors import ConfigurationError, ServiceError
from accelkit.scheduler.launch.manifest import MANIFEST
from accelkit.scheduler.switch.record import compute_sha256

FLAG = "--config=/etc/kubernetes/accelkit/scheduler-"


@pytest.fixture
def host(tmp_path):
    return make_host(tmp_path)


@pytest.fixture
def short_host(tmp_path):
    """A host whose manifest is soon read, for tests that switch it over and over."""
    return make_host(tmp_path, short_manifest())


def manifest(tmp_path):
    return (tmp_path / MANIFEST.removeprefix("/")).read_text()


def test_apply_is_idempotent_and_removal_restores_host(tmp_path, host):
    before = tree(tmp_path)
    first = switch(host).apply(desired())
    assert {change.path for change in first.changes} > {MANIFEST}
    assert FLAG in manifest(tmp_path)
    assert switch(host).apply(desired()).changes == ()
    assert switch(host).check(desired()).changes == ()

    updated = switch(host).apply(desired("https://10.96.0.21:32766", b"another key"))
    assert any(change.path.endswith("client.key") for change in updated.changes)
    ours = sorted(path.name for path in (tmp_path / "etc/kubernetes/accelkit").iterdir())
    assert len([name for name in ours if name.startswith("scheduler-")]) == 1, ours

    removed = switch(host).remove()
    assert removed.exact
    assert tree(tmp_path) == before
    assert switch(host).remove().changes == ()


def test_folders_created_by_pod_mounts_are_removed(tmp_path, host):
    before = tree(tmp_path)
    for folder in ("etc/kubernetes/accelkit", "var/lib/accelkit/backup"):
        (tmp_path / folder).mkdir(parents=True)
    switch(host).apply(desired())
    switch(host).remove()
    assert tree(tmp_path) == before


def test_scheduler_is_restarted_only_when_launch_file_changes(host):
    runner = Runner()
    assert restarts(runner, switch(host, runner).apply, desired()) == 1
    assert restarts(runner, switch(host, runner).apply, desired()) == 0
    assert restarts(runner, switch(host, runner).check, desired()) == 0
    assert restarts(runner, switch(host, runner).apply, desired("https://10.96.0.21:32766")) == 1
    assert restarts(runner, switch(host, runner).remove) == 1
    assert restarts(runner, switch(host, runner).remove) == 0


def restarts(runner, act, *args):
    """How often the scheduler was restarted by it."""
    before = runner.restarts
    act(*args)
    return runner.restarts - before


def test_compare_changes_nothing(tmp_path, host):
    before = tree(tmp_path)
    outcome = switch(host).compare(desired())
    assert [change.before is None for change in outcome.changes].count(False) == 1
    assert tree(tmp_path) == before
    switch(host).apply(desired())
    installed = tree(tmp_path)
    assert len(switch(host).compare_removal().changes) == len(outcome.changes)
    assert tree(tmp_path) == installed


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("then", ["apply", "remove"])
def test_interrupted_apply_is_completed_by_next_run(tmp_path, short_host, then, after):
    before, launch_files = tree(tmp_path), {compute_sha256(manifest(tmp_path).encode())}
    switch(short_host).apply(desired())
    launch_files.add(compute_sha256(manifest(tmp_path).encode()))
    installed = tree(tmp_path)
    switch(short_host).remove()
    for at in range(100):
        try:
            switch(DyingHost(short_host, at, after=after)).apply(desired())
        except Killed:
            assert compute_sha256(manifest(tmp_path).encode()) in launch_files
            if then == "apply":
                switch(short_host).apply(desired())
                assert tree(tmp_path) == installed
            switch(short_host).remove()
            assert tree(tmp_path) == before, f"killed at change {at}"
        else:
            break
    else:
        pytest.fail("never finished")
    assert at > 5


@pytest.mark.parametrize("after", [False, True])
def test_interrupted_removal_is_completed_by_next_run(tmp_path, short_host, after):
    before = tree(tmp_path)
    for at in range(100):
        switch(short_host).apply(desired())
        try:
            switch(DyingHost(short_host, at, after=after)).remove()
        except Killed:
            switch(short_host).remove()
            assert tree(tmp_path) == before, f"killed at change {at}"
        else:
            break
    assert tree(tmp_path) == before
    assert at > 5


@pytest.mark.parametrize("call", ["open", "write", "fsync", "fchmod", "rename", "close", "mkdir", "chmod"])
def test_interrupted_write_leaves_old_or_new_file(tmp_path, short_host, call, monkeypatch):
    before = tree(tmp_path)
    real, calls = getattr(os, call), []
    for at in range(200):
        calls.clear()

        def dying(*args, at=at, **keywords):
            calls.append(args)
            if len(calls) > at:
                raise Killed
            return real(*args, **keywords)

        with monkeypatch.context() as patched:
            patched.setattr(os, call, dying)
            try:
                switch(short_host).apply(desired())
            except Killed:
                finished = False
            else:
                finished = True
        if finished:
            break
        assert manifest(tmp_path).startswith("apiVersion: v1\n")
        assert not manifest(tmp_path).rstrip().endswith(":")
        switch(short_host).apply(desired())
        switch(short_host).remove()
        assert tree(tmp_path) == before, f"killed at call {at} of os.{call}"
    else:
        pytest.fail("never finished")
    assert at > 2


def test_manifest_is_restored_when_scheduler_does_not_start(tmp_path, host):
    before = tree(tmp_path)
    with pytest.raises(ServiceError, match="does not run"):
        switch(host, Runner(refuses=lambda text: FLAG in text)).apply(desired())
    assert tree(tmp_path) == before

    switch(host).apply(desired())
    installed = tree(tmp_path)
    running = manifest(tmp_path)
    with pytest.raises(ServiceError, match="does not run"):
        switch(host, Runner(refuses=lambda text: text != running)).apply(desired("https://10.96.0.21:32766", b"k2"))
    assert tree(tmp_path) == installed
    switch(host).remove()
    assert tree(tmp_path) == before


def test_scheduler_is_restarted_with_former_manifest_after_failed_switch(tmp_path, host):
    original = manifest(tmp_path)
    service = Restarted(tmp_path, refuses=lambda text: FLAG in text)
    with pytest.raises(ServiceError, match="the former state was restored"):
        switch(host, service).apply(desired())
    assert service.running == original == manifest(tmp_path)


def test_failed_switch_and_failed_restore_are_both_reported(tmp_path, host):
    original = manifest(tmp_path)
    with pytest.raises(
        ServiceError, match=r"something else; and the former configuration could not be restored: .* something else"
    ):
        switch(host, Restarted(tmp_path, refuses=bool)).apply(desired())
    assert manifest(tmp_path) == original


def test_restored_manifest_keeps_its_current_mode(tmp_path, host):
    switch(host).apply(desired())
    place = tmp_path / MANIFEST.removeprefix("/")
    place.chmod(0o640)
    running = manifest(tmp_path)
    with pytest.raises(ServiceError, match="does not run"):
        switch(host, Runner(refuses=lambda text: text != running)).apply(desired("https://10.96.0.21:32766"))
    assert (manifest(tmp_path), place.stat().st_mode & 0o777) == (running, 0o640)


def test_interrupted_switch_with_failing_scheduler_is_reverted_by_next_run(tmp_path, host):
    before = tree(tmp_path)
    with pytest.raises(Killed):
        switch(host, Runner(refuses=lambda text: FLAG in text, dies=True)).apply(desired())
    assert FLAG in manifest(tmp_path)
    with pytest.raises(ServiceError, match="the former state was restored"):
        switch(host, Runner(refuses=lambda text: FLAG in text)).apply(desired())
    assert tree(tmp_path) == before

    switch(host).apply(desired())
    running = manifest(tmp_path)
    other = desired("https://10.96.0.21:32766")
    with pytest.raises(Killed):
        switch(host, Runner(refuses=lambda text: text != running, dies=True)).apply(other)
    assert manifest(tmp_path) != running
    with pytest.raises(ServiceError, match="the former state was restored"):
        switch(host, Runner(refuses=lambda text: text != running)).apply(other)
    assert manifest(tmp_path) == running
    assert switch(host).apply(desired()).changes == ()
    switch(host).remove()
    assert tree(tmp_path) == before


def test_manifest_replaced_during_interrupted_switch_is_preserved(tmp_path, host):
    with pytest.raises(Killed):
        switch(host, Runner(refuses=bool, dies=True)).apply(desired())
    upgraded = kubeadm_manifest(35)
    (tmp_path / MANIFEST.removeprefix("/")).write_text(upgraded)
    with pytest.raises(ServiceError, match="the former state was restored"):
        switch(host, Runner(refuses=lambda text: FLAG in text)).apply(desired())
    assert manifest(tmp_path) == upgraded


@pytest.mark.parametrize("after", [False, True])
def test_service_is_restarted_after_interrupted_apply_or_removal(tmp_path, short_host, after):
    """As systemd: a launch file that was switched by a run that died says nothing about what runs."""
    service = Restarted(tmp_path)
    for at in range(50):
        dying = DyingHost(short_host, at, after=after)
        finished = [ends(switch(dying, service).apply, desired())]
        switch(short_host, service).apply(desired())
        assert FLAG in service.running
        finished.append(ends(switch(DyingHost(short_host, at, after=after), service).remove))
        switch(short_host, service).remove()
        assert service.running == manifest(tmp_path)
        if all(finished):
            break
    else:
        pytest.fail("never finished")
    assert at > 5


def ends(call, *args):
    """Whether it ends by itself."""
    try:
        call(*args)
    except Killed:
        return False
    return True


def test_scheduler_that_is_not_running_is_not_switched(tmp_path, host):
    before = tree(tmp_path)
    with pytest.raises(ServiceError):
        switch(host, Runner(refuses=bool)).apply(desired())
    assert tree(tmp_path) == before


def test_replaced_manifest_is_switched_again_and_its_changes_are_kept(tmp_path, host):
    switch(host).apply(desired())
    upgraded = kubeadm_manifest(35)
    (tmp_path / MANIFEST.removeprefix("/")).write_text(upgraded)
    assert switch(host).check(desired()).changes
    switch(host).apply(desired())
    assert FLAG in manifest(tmp_path)
    assert switch(host).remove().exact
    assert manifest(tmp_path) == upgraded


def test_edits_of_switched_manifest_are_preserved_on_removal(tmp_path, host):
    original = manifest(tmp_path)
    switch(host).apply(desired())
    edited = manifest(tmp_path).replace("cpu: 100m", "cpu: 200m")
    (tmp_path / MANIFEST.removeprefix("/")).write_text(edited)
    removed = switch(host).remove()
    assert not removed.exact
    assert manifest(tmp_path) == original.replace("cpu: 100m", "cpu: 200m")
    assert not (tmp_path / "var/lib/accelkit").exists()
    assert not (tmp_path / "etc/kubernetes/accelkit").exists()


def test_gcushare_is_adopted_and_its_files_are_removed(tmp_path):
    original = kubeadm_manifest(34)
    config = "/etc/kubernetes/scheduler-extender-config-v1.23+.yaml"
    theirs = (
        original.replace("    - --leader-elect=true\n", f"    - --leader-elect=true\n    - --config={config}\n")
        .replace("    volumeMounts:\n", f"    volumeMounts:\n    - mountPath: {config}\n      name: extender\n")
        .replace("  volumes:\n", f"  volumes:\n  - hostPath:\n      path: {config}\n    name: extender\n")
    )
    host = make_host(tmp_path, theirs)
    folder = tmp_path / "etc/kubernetes"
    (folder / "kube-scheduler.back.yaml").write_text(original)
    (folder / "scheduler-extender-config-v1.23+.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n"
        "- urlPrefix: http://127.0.0.1:32766/gcushare-scheduler\n  bindVerb: bind\n"
    )
    switch(host, adopt_gcushare=True).apply(desired())
    assert FLAG in manifest(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["accelkit", "manifests", "scheduler.conf"]
    assert switch(host, adopt_gcushare=True).apply(desired()).changes == ()
    switch(host).remove()
    assert manifest(tmp_path) == original


def test_invalid_manifest_is_reported_and_changes_nothing(tmp_path, host):
    place = tmp_path / MANIFEST.removeprefix("/")
    for content, words in (
        (b"a: [", "not a single YAML document"),
        (b"\xff\xfe", "not UTF-8"),
        (b"kind: Pod\n", "manifest"),
    ):
        place.write_bytes(content)
        before = tree(tmp_path)
        with pytest.raises(ConfigurationError, match=words):
            switch(host).apply(desired())
        assert tree(tmp_path) == before
    place.unlink()
    with pytest.raises(ConfigurationError, match=r"cannot read the manifest .*: it does not exist"):
        switch(host).apply(desired())
    place.symlink_to("elsewhere.yaml")
    with pytest.raises(ConfigurationError, match="it is a link, not a file"):
        switch(host).apply(desired())


def test_a_damaged_original_is_not_restored(tmp_path, host):
    switch(host).apply(desired())
    (original,) = (tmp_path / "var/lib/accelkit/backup").glob("*.original")
    original.write_text("no manifest")
    installed = tree(tmp_path)
    with pytest.raises(ConfigurationError, match="is damaged"):
        switch(host).remove()
    assert tree(tmp_path) == installed


def test_full_disk_changes_nothing(tmp_path, host, monkeypatch):
    before = tree(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(ServiceError, match="No space left on device\nthe former state was restored"):
        switch(host).apply(desired())
    assert tree(tmp_path) == before
