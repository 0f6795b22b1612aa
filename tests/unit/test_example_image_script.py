"""What scripts/cache_example_images.py makes without a registry: caches, the workloads' root, hosts and policy."""

import gzip
import importlib
import io
import tarfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from accelkit.examples.example import ALL_EXAMPLES
from accelkit.examples.objects import build_objects
from accelkit.kernelcache.formats import read_cache
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.signatures import load_policies

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(autouse=True)
def _scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))


@pytest.fixture
def images():
    return importlib.import_module("cache_example_images")


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.delenv("ACCELKIT_VECTORS", raising=False)
    return importlib.import_module("example_caches").find_caches(tmp_path)


def test_small_caches_are_generated_without_given_caches(made):
    assert [cache.real for cache in made] == [False] * 3
    read = {cache.name: read_cache(cache.path, cpu_architecture="amd64") for cache in made}
    assert {name: cache.format for name, cache in read.items()} == {
        "vector-add-cache-cuda": "triton",
        "vector-add-cache-rocm": "triton",
        "vllm-cache": "vllm",
    }
    assert {name: [f"{each.backend}:{each.arch}" for each in cache.targets] for name, cache in read.items()} == {
        "vector-add-cache-cuda": ["cuda:75"],
        "vector-add-cache-rocm": ["hip:gfx90a"],
        "vllm-cache": ["hip:gfx90a"],
    }


def test_existing_given_caches_are_used(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELKIT_VECTORS", str(tmp_path / "given"))
    (tmp_path / "given" / "caches" / "vector-add-cache").mkdir(parents=True)
    found = importlib.import_module("example_caches").find_caches(tmp_path / "work")
    assert {cache.name: cache.real for cache in found} == {
        "vector-add-cache-cuda": True,
        "vector-add-cache-rocm": False,
        "vllm-cache": False,
    }


def test_each_example_image_is_provided(images, made):
    tags = {f"{cache.name}{end}" for cache in made for end in ("", "-v2")}
    wanted = set()
    for example in ALL_EXAMPLES:
        for item in build_objects(example):
            spec = item.get("spec", {})
            pod = spec.get("template", {}).get("spec", spec)
            containers = [*pod.get("containers", []), *pod.get("initContainers", [])]
            wanted |= {each["image"] for each in containers} | ({spec["image"]} if "image" in spec else set())
    provided = {f"{images.UPSTREAM}/{images.CACHES}:{tag}" for tag in tags}
    assert {image for image in wanted if "cache-examples" in image} <= provided
    assert {str(parse_reference(image)) for image in wanted if "cache-examples" not in image} == {
        f"{images.UPSTREAM}/{images.WORKLOAD}"
    }


def test_signer_policy_covers_only_example_caches(images, tmp_path):
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "cosign.pub").write_bytes(pem)
    policies = load_policies(images.write_policy(tmp_path))
    for image, covered in {
        "quay.io/gkm/cache-examples:vector-add-cache-rocm": True,
        "quay.io/fedora/fedora-minimal": False,
        "localhost:5001/gkm/cache-examples:vector-add-cache-rocm": False,
    }.items():
        assert bool(policies.select(parse_reference(image), None)) is covered, image


def test_workload_layer_contains_required_programs_and_is_reproducible(tmp_path):
    module = importlib.import_module("workload_image")
    busybox = tmp_path / "busybox"
    busybox.write_text("#!/bin/sh\necho busybox\necho chmod\necho chown\necho sh\necho sleep\n")
    busybox.chmod(0o755)
    layer = module.build_layer(busybox)
    assert module.build_layer(busybox) == layer
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(layer))) as archive:
        members = {each.name: each for each in archive}
    assert members["bin/busybox"].mode == 0o755
    assert {name for name, each in members.items() if each.linkname == "busybox"} == {
        *("bin/chmod", "bin/chown", "bin/sh", "bin/sleep"),
    }
    assert members["tmp"].mode == 0o1777


def test_dynamically_linked_busybox_is_rejected(tmp_path, monkeypatch):
    module = importlib.import_module("workload_image")
    (tmp_path / "busybox").write_bytes(b"\x7fELF\0/lib64/ld-linux-x86-64.so.2\0")
    (tmp_path / "busybox").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(module.ConfigurationError, match="busybox-static"):
        module.find_busybox()


def test_nodes_reach_local_registry_by_gateway_address(images, monkeypatch):
    monkeypatch.setattr(images, "run_on", lambda *_: "default via 172.18.0.1 dev eth0\n")
    assert images.reach_from_nodes("localhost:5001", ["kind-worker"]) == "172.18.0.1:5001"
    assert images.reach_from_nodes("registry.example:5000", ["kind-worker"]) == "registry.example:5000"
    assert images.reach_from_nodes("localhost:5001", []) == "localhost:5001"


def test_containerd_hosts_file_redirects_to_one_registry(images, monkeypatch):
    scripts = {}
    monkeypatch.setattr(images, "run_on", lambda node, script: scripts.update({node: script}))
    images.write_hosts("kind-worker", "http://172.18.0.1:5001")
    assert "/etc/containerd/certs.d/quay.io/hosts.toml" in scripts["kind-worker"]
    assert images.build_hosts("http://172.18.0.1:5001").splitlines() == [
        'server = "http://172.18.0.1:5001"',
        "",
        '[host."http://172.18.0.1:5001"]',
        '  capabilities = ["pull", "resolve"]',
    ]
