"""Make the images that the example caches and their workloads name, signed by cosign, in a registry of one's own.

    cache_example_images.py [--registry HOST] [--keys FOLDER] [--hosts-on NODE …]

Nothing is pulled. The caches are those that frameworks wrote, from `ACCELKIT_VECTORS`, or small ones that are made;
stderr lists which of them are which, and in `real_caches` and `made_caches`.
Upstream's names are kept behind the registry: `quay.io/gkm/cache-examples:TAG` becomes `HOST/gkm/cache-examples:TAG`,
and the workloads' `quay.io/fedora/fedora-minimal` is a root of busybox. Tags end in -v2 where cosign 2 signs. Two more
are there to be refused: -unsigned, and -stranger, signed with another key.

`--hosts-on` tells containerd of nodes made by kind to ask HOST in place of upstream's registry; what is printed, as
JSON, has the same for accelkit, with the address by which nodes reach HOST: `mirror` and `plain_http` for commands,
`settings` for playbooks. The key and the SignerPolicy that names it are left in FOLDER.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from example_caches import CacheFolder, describe_origins, find_caches
from workload_image import find_busybox, push_workload_image

from accelkit.errors import AccelkitError, ConfigurationError, RegistryError
from accelkit.examples.files import render
from accelkit.kernelcache.oci.reference import Reference, parse_reference
from accelkit.kernelcache.publishing.build import BuildOptions, build_image
from accelkit.kernelcache.publishing.signing import Cosign
from accelkit.kernelcache.registry import RegistryClient, RegistrySettings

UPSTREAM = "quay.io"
CACHES = "gkm/cache-examples"
WORKLOAD = "fedora/fedora-minimal:latest"
POLICY = "example-caches"
_SECONDS = 120


@dataclass
class Images:
    """What has been pushed.

    Attributes:
        digests: by name behind the registry.
        formats: of the signatures, by the same name; the caches alone.
        real: names of caches that their frameworks wrote.
        made: names of caches that no framework wrote.
    """

    digests: dict[str, str] = field(default_factory=dict)
    formats: dict[str, str] = field(default_factory=dict)
    real: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Wanted:
    """An image of a cache: its tag, how it is built, and its signer; None for an unsigned image."""

    tag: str
    cache: CacheFolder
    options: BuildOptions
    cosign: Cosign | None


def main() -> int:
    """Make the images; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--registry", metavar="HOST", default=os.environ.get("TESTBED_REGISTRY", "localhost:5001"))
    parser.add_argument("--tls", action="store_true", help="the registry speaks TLS; without it, plain HTTP")
    parser.add_argument("--keys", metavar="FOLDER", type=Path, default=Path("build/example-images"))
    parser.add_argument("--hosts-on", metavar="NODE", nargs="*", default=[], help="containers of nodes made by kind")
    options = parser.parse_args()
    try:
        print(
            json.dumps(
                asyncio.run(provide(options.registry, options.keys, options.hosts_on, tls=options.tls)), indent=2
            )
        )
    except (AccelkitError, subprocess.SubprocessError, OSError) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    return 0


async def provide(registry: str, keys: Path, nodes: list[str], *, tls: bool = False) -> dict[str, object]:
    """Build, sign and push all images, and configure nodes to pull them; return the output of `main`.

    Raises:
        AccelkitError: a program is missing, the registry refuses, or cosign fails.
        SubprocessError: a node cannot be configured.
    """
    prepare_keys(keys)
    reached = reach_from_nodes(registry, nodes)
    scheme = "https" if tls else "http"
    for node in nodes:
        write_hosts(node, f"{scheme}://{reached}")
    settings = RegistrySettings(plain_http=frozenset() if tls else frozenset({registry}))
    with tempfile.TemporaryDirectory(prefix="accelkit-examples-") as work:
        async with RegistryClient(settings) as client:
            caches = find_caches(Path(work))
            print(describe_origins(caches), file=sys.stderr)
            images = await push_all(client, registry, caches, keys, plain_http=not tls)
            images.digests[WORKLOAD] = await push_workload_image(
                client, parse_reference(f"{registry}/{WORKLOAD}"), find_busybox()
            )
    policy = write_policy(keys)
    return {
        "images": images.digests,
        "formats": images.formats,
        "real_caches": images.real,
        "made_caches": images.made,
        "mirror": f"{UPSTREAM}={reached}",
        "plain_http": [] if tls else [reached],
        "settings": {
            "accelkit_registry_mirrors": {UPSTREAM: reached},
            "accelkit_registry_plain_http": [] if tls else [reached],
        },
        "policy": str(policy),
        "key": str(keys / "cosign.key"),
    }


def prepare_keys(folder: Path) -> None:
    """Make two pairs of keys without a password, if they do not exist.

    Raises:
        ConfigurationError: cosign is not on PATH.
    """
    os.environ.setdefault("COSIGN_PASSWORD", "")
    program = shutil.which("cosign")
    if program is None:
        raise ConfigurationError("cosign is not on PATH", next_step="install cosign 2, and cosign 3 as cosign3")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("cosign", "stranger"):
        if not (folder / f"{name}.key").exists():
            command = [program, "generate-key-pair", "--output-key-prefix", name]
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_SECONDS)


def write_policy(folder: Path) -> Path:
    """Write the policy that names the key in a folder; return its path."""
    policy = folder / "signer-policy.yaml"
    policy.write_text(render([build_policy((folder / "cosign.pub").read_text())]))
    return policy


async def push_all(
    client: RegistryClient, registry: str, caches: list[CacheFolder], keys: Path, *, plain_http: bool
) -> Images:
    """Push each cache twice, for either format of signatures, and two that no policy should take."""
    images = Images(
        real=[cache.name for cache in caches if cache.real], made=[cache.name for cache in caches if not cache.real]
    )
    newest = next(program for program in ("cosign3", "cosign") if shutil.which(program))
    own, other = str(keys / "cosign.key"), str(keys / "stranger.key")
    two = Cosign(key=own, log=False, plain_http=plain_http)
    three = Cosign(program=newest, key=own, log=False, plain_http=plain_http)
    rocm = next(cache for cache in caches if cache.name.endswith("rocm"))
    stranger = Cosign(key=other, log=False, plain_http=plain_http)
    # Other bytes for each, so that each has signatures of its own.
    wanted = [
        *(Wanted(f"{cache.name}-v2", cache, BuildOptions(media="docker"), two) for cache in caches),
        *(Wanted(cache.name, cache, BuildOptions(), three) for cache in caches),
        Wanted(f"{rocm.name}-unsigned", rocm, BuildOptions(gpu_product="unsigned"), None),
        Wanted(f"{rocm.name}-stranger", rocm, BuildOptions(gpu_product="stranger"), stranger),
    ]
    for each in wanted:
        reference = parse_reference(f"{registry}/{CACHES}:{each.tag}")
        built = await build_image(each.cache.path, reference, each.options, client)
        name = f"{CACHES}:{each.tag}"
        images.digests[name] = built.digest
        if each.cosign is not None:
            await each.cosign.sign(reference.with_digest(built.digest))
            images.formats[name] = await find_format(client, reference, built.digest)
    return images


async def find_format(client: RegistryClient, reference: Reference, digest: str) -> str:
    """Return the signature format of an image: cosign 3 writes either, depending on its options."""
    signature = parse_reference(f"{reference.name}:{digest.replace(':', '-')}.sig")
    try:
        await client.read_manifest(signature)
    except RegistryError as exc:
        if exc.status != HTTPStatus.NOT_FOUND:
            raise
        return "cosign-v3"
    return "cosign-v2"


def build_policy(key: str) -> dict[str, object]:
    """Return the SignerPolicy that names the key for the examples' caches, and for nothing else."""
    signer = {"key": {"data": key}, "transparencyLog": "notRequired"}
    return {
        "apiVersion": "accelkit.io/v1alpha1",
        "kind": "SignerPolicy",
        "metadata": {"name": POLICY},
        "spec": {"images": [f"{UPSTREAM}/gkm/**"], "signers": [signer]},
    }


def reach_from_nodes(registry: str, nodes: list[str]) -> str:
    """Return the address by which nodes and their pods reach a registry; this machine is their default gateway."""
    host, _, port = registry.partition(":")
    if host not in {"localhost", "127.0.0.1"} or not nodes:
        return registry
    routes = run_on(nodes[0], "ip route show default")
    if (found := re.search(r"\bvia (\S+)", routes)) is None:
        raise ConfigurationError(
            f"{nodes[0]} has no default gateway: {routes.strip()}", next_step="name it in --registry"
        )
    return f"{found[1]}:{port}"


def write_hosts(node: str, url: str) -> None:
    """Configure containerd of a node to pull from one registry and never from upstream; it needs no restart."""
    folder = f"/etc/containerd/certs.d/{UPSTREAM}"
    run_on(node, f"mkdir -p {folder} && cat > {folder}/hosts.toml <<'END'\n{build_hosts(url)}END\n")


def build_hosts(url: str) -> str:
    """Return the hosts configuration of containerd that leads to one registry alone."""
    return f'server = "{url}"\n\n[host."{url}"]\n  capabilities = ["pull", "resolve"]\n'


def run_on(node: str, script: str) -> str:
    """Run a script on a node made by kind; return what it prints."""
    command = ["docker", "exec", "--interactive", node, "sh", "-eu"]
    return subprocess.run(command, input=script, capture_output=True, text=True, timeout=_SECONDS, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
