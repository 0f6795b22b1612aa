"""What is created in accelkit's own namespace: sizes of claims, Jobs, and what of a tenant's podTemplate is taken."""

from pathlib import Path

import click
import msgspec
import pytest
from pretended_cluster import FIRST, OURS, SETTINGS, cache_of

from accelkit.cachecontroller.cluster_view import ObjectName
from accelkit.cachecontroller.delivery import FillSettings
from accelkit.cachecontroller.filling.manifests import (
    list_copies,
    measure_claim,
    place_pod,
    write_job,
    write_settings,
)
from accelkit.cachecontroller.filling.objects import JOBS, Target
from accelkit.errors import QuantityError
from accelkit.gkm.objects import CacheSpec, PodTemplate
from accelkit.kernelcache.commands.fill import fill
from accelkit.kernelcache.signatures.signer_policy import load_policies

MIB = 1 << 20


def job_of(settings=SETTINGS, *, check=False, namespace="team", **spec):
    target = Target(cache_of(namespace=namespace, **spec), "team", FIRST, "/cache")
    return write_job(target, settings, name="job-1", claim="claim", shared="shared", attempt=1, check=check)


def pod_of(job):
    return job["spec"]["template"]["spec"]


def template_of(**fields):
    return msgspec.json.decode(msgspec.json.encode(fields), type=PodTemplate)


@pytest.mark.parametrize(
    ("size", "cache_bytes", "expected"),
    [
        ("", 0, 1024 * MIB),
        ("", 100 * MIB, 184 * MIB),
        ("", 1, 65 * MIB),
        ("5Gi", 100 * MIB, 5120 * MIB),
        ("1", 0, MIB),
    ],
)
def test_claim_size_includes_cache_and_file_system_overhead(size, cache_bytes, expected):
    assert measure_claim(CacheSpec(size=size), cache_bytes) == expected


@pytest.mark.parametrize("size", ["many", "-1Gi", "0"])
def test_invalid_claim_size_is_rejected(size):
    with pytest.raises(QuantityError):
        measure_claim(CacheSpec(size=size), 0)


def test_fill_job_pod_is_unprivileged_and_job_is_bounded():
    pod = pod_of(job_of())
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"]
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    spec = job_of()["spec"]
    assert spec["activeDeadlineSeconds"]
    assert spec["ttlSecondsAfterFinished"]
    assert spec["backoffLimit"] == 0
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    words = pod_of(job_of(namespace="", workloadNamespaces=["team"]))["containers"][0]["args"]
    assert "--namespace" not in words


@pytest.mark.parametrize("check", [False, True])
def test_fill_command_accepts_arguments_of_job(check, monkeypatch):
    files = FillSettings("i", OURS, "", ("--plain-http", "registry.example"), b"{}", b"PEM")
    container = pod_of(job_of(files, check=check, imagePullSecrets=[{"name": "login"}]))["containers"][0]
    words = container["args"]
    assert words[:2] == ["cache", "fill"]
    # Files and folders are those of the container.
    monkeypatch.setattr(click.Path, "convert", lambda _self, value, *_: Path(value))
    context = fill.make_context("fill", list(words[2:]))
    assert (context.params["image"], context.params["check"]) == (f"quay.io/acme/cache@{FIRST}", check)
    assert str(context.params["volume"]) in {each["mountPath"] for each in container["volumeMounts"]}
    mounted = [each["mountPath"] for each in container["volumeMounts"]]
    paths = [context.params[name] for name in ("policy", "trusted_root", "registry_ca")]
    paths += context.params["registry_config"]
    assert all(any(str(path).startswith(f"{each}/") for each in mounted) for path in paths if path)
    if not check:
        assert all(paths)
        assert context.params["namespace"] == "team"
        assert context.params["plain_http"]


def test_fill_job_receives_file_with_policies_that_cover_image(tmp_path):
    spec = {
        "images": ["quay.io/acme/**"],
        "signers": [{"keyless": {"issuer": "https://issuer.example", "subject": "ci@acme.example"}}],
    }
    others = {
        "elsewhere": {**spec, "images": ["quay.io/other/**"]},
        "namespaced": {**spec, "namespaces": ["theirs"]},
        "broken": {**spec, "signers": [{"key": {"data": "no key"}}]},
    }
    target = Target(cache_of(), "team", FIRST, "/cache")
    written = write_settings(target, "shared", SETTINGS, {"b": spec, "a": spec, **others})
    file = tmp_path / "policies.yaml"
    file.write_text(written["data"]["policies.yaml"])
    policies = load_policies(file)
    assert [each.name for each in policies.policies] == ["a", "b"]
    assert written["immutable"] is True


def test_pod_template_of_cache_sets_only_node_placement():
    spec = {
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {"x": 1}, "podAffinity": {"y": 1}},
        "priorityClassName": "system-node-critical",
    }
    assert place_pod(template_of(spec=spec)) == {
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {"x": 1}},
    }
    assert place_pod(None) == {}
    assert place_pod(template_of()) == {}


def test_fill_job_ignores_labels_and_annotations_of_pod_template():
    """By the labels of a Service or NetworkPolicy of accelkit's namespace, his pod would be sent its requests."""
    labels = {"app": "accelkit-cache-controller", "k8s-app": "kube-dns", "team": "a", "cache.accelkit.io/name": "other"}
    job = job_of(podTemplate={"metadata": {"labels": labels, "annotations": {"inject": "true"}}})
    metadata = job["spec"]["template"]["metadata"]
    assert metadata["labels"] == job_of()["spec"]["template"]["metadata"]["labels"]
    assert metadata["labels"]["cache.accelkit.io/name"] == "llama"
    assert "inject" not in metadata["annotations"]


def test_pull_secrets_are_copied_only_for_namespaced_cache():
    name = ObjectName(JOBS, "job-1", OURS)
    given = {"imagePullSecrets": [{"name": "login"}]}
    mine = Target(cache_of(**given), "team", FIRST, "/cache")
    (copied,) = list_copies(mine, SETTINGS, name, "uid")
    assert (copied.source, copied.owner_uid) == (("team", "login"), "uid")
    volumes = {each["secret"]["secretName"] for each in pod_of(job_of(**given))["volumes"] if "secret" in each}
    assert volumes == {copied.target[1]}
    assert copied.target[0] == OURS
    clusters = Target(cache_of(namespace="", workloadNamespaces=["team"], **given), "team", FIRST, "/cache")
    assert list_copies(clusters, SETTINGS, name, "uid") == []
