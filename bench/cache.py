"""Verify, pull and extract a cache image, against `cosign verify`, `skopeo copy` and `tar -xz` on the same registry.

The image has a gigabyte of files, half of it compressible. All programs are started afresh each round, and the rounds
alternate, so that the machine's noise meets all. `tar -x` of the plain archive is the floor. Prints JSON: seconds per
step at the median, the ratio of the three together to ours, and the peak memory of ours at two image sizes.

Needs docker-registry and cosign, and reports which is missing. Without skopeo only accelkit is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from figures import Figure, report

from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.publishing.build import BuildOptions, build_image
from accelkit.kernelcache.publishing.signing import Cosign
from accelkit.kernelcache.registry import RegistryClient, RegistrySettings

AIM_OF_RATIO = 3.0
PROGRAMS = ("docker-registry", "cosign", "tar")
KERNELS = 32
DEADLINE_SECONDS = 600
POLICY = """\
apiVersion: accelkit.io/v1alpha1
kind: SignerPolicy
metadata: {{name: bench}}
spec:
  images: ["{host}/**"]
  signers: [{{key: {{file: cosign.pub}}, transparencyLog: notRequired}}]
"""


TARGET = {"backend": "cuda", "arch": 90, "warp_size": 32}


def make_cache(folder: Path, size: int, target: Mapping[str, object] = TARGET) -> None:
    """Write a Triton cache for a target: cubins of noise, and assembly that compresses as assembly does."""
    chance = random.Random(7)  # noqa: S311 - no secret
    words = [f"%r{number}, %rd{number // 3}; mov.b32 fma.rn.f32 ld.global" for number in range(997)]
    text = "\n".join(chance.choice(words) for _ in range(40_000)).encode()
    half = size // KERNELS // 2
    for number in range(KERNELS):
        kernel = folder / f"{number:052d}"
        kernel.mkdir(parents=True)
        (kernel / "k.cubin").write_bytes(chance.randbytes(half))
        (kernel / "k.ptx").write_bytes((text * (half // len(text) + 1))[:half])
        (kernel / "k.json").write_text(json.dumps({"hash": f"{number:064d}", "target": dict(target), "name": "k"}))
        paths = {name: f"/build/{kernel.name}/{name}" for name in ("k.cubin", "k.ptx", "k.json")}
        (kernel / "__grp__k.json").write_text(json.dumps({"child_paths": paths}))


def start_registry(work: Path) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{probe.getsockname()[1]}"
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(work / "registry")}},
        "http": {"addr": host},
        "log": {"level": "error"},
    }
    (work / "registry.yml").write_text(json.dumps(config))
    log = (work / "registry.log").open("wb")
    process = subprocess.Popen(["docker-registry", "serve", str(work / "registry.yml")], stdout=log, stderr=log)
    log.close()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", int(host.rpartition(":")[2]))) == 0:
                return process, host
        time.sleep(0.05)
    raise SystemExit(f"docker-registry does not start: {(work / 'registry.log').read_text()}")


async def push(cache: Path, image: str, host: str, key: Path) -> None:
    reference = parse_reference(image)
    async with RegistryClient(RegistrySettings(plain_http=frozenset({host}))) as client:
        built = await build_image(cache, reference, BuildOptions(), client)
    await Cosign(key=str(key), log=False, plain_http=True).sign(reference.with_digest(built.digest))


def run(*command: str) -> tuple[float, int]:
    """Seconds, and peak memory in KiB."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise SystemExit(f"{' '.join(command)} failed: {output.read().decode()[-800:]}")
    return time.perf_counter() - began, used.ru_maxrss


def extract_ours(image: str, host: str, work: Path, target: Path) -> tuple[float, int]:
    shutil.rmtree(target, ignore_errors=True)
    accelkit = str(Path(sys.executable).with_name("accelkit"))
    policy = str(work / "policy.yml")
    return run(accelkit, "cache", "extract", image, str(target), "--policy", policy, "--plain-http", host)


def extract_theirs(image: str, work: Path) -> dict[str, float]:
    pulled, target = work / "pulled", work / "theirs"
    shutil.rmtree(pulled, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    options = ("--insecure-ignore-tlog=true", "--allow-http-registry", "--allow-insecure-registry")
    verify, _ = run("cosign", "verify", "--key", str(work / "cosign.pub"), *options, image)
    copy, _ = run(
        *("skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", f"docker://{image}", f"dir:{pulled}")
    )
    layer = max((each for each in pulled.iterdir()), key=lambda each: each.stat().st_size)
    extract, _ = run("tar", "-xzf", str(layer), "-C", str(target))
    return {"cosign verify": verify, "skopeo copy": copy, "tar -xz": extract}


def extract_plain(cache: Path, work: Path) -> float:
    archive, target = work / "plain.tar", work / "floor"
    if not archive.exists():
        with tarfile.open(archive, "w") as file:
            file.add(cache, "cache")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    return run("tar", "-xf", str(archive), "-C", str(target))[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024, help="size of the cache")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        report({"skipped": f"not installed: {', '.join(missing)}"})
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(prefix="accelkit-bench-") as folder:
        work = Path(folder)
        process, host = start_registry(work)
        try:
            report(measure(work, host, options.mib << 20, options.rounds))
        finally:
            process.terminate()
            process.wait(timeout=30)


def measure(work: Path, host: str, size: int, rounds: int) -> dict[str, object]:
    environment = {**os.environ, "COSIGN_PASSWORD": ""}
    os.environ["COSIGN_PASSWORD"] = ""
    subprocess.run(["cosign", "generate-key-pair"], cwd=work, env=environment, check=True, capture_output=True)
    (work / "policy.yml").write_text(POLICY.format(host=host))
    large, small = f"{host}/bench/large:1", f"{host}/bench/small:1"
    make_cache(work / "cache", size)
    make_cache(work / "small-cache", size // 8)
    for cache, image in (("cache", large), ("small-cache", small)):
        asyncio.run(push(work / cache, image, host, work / "cosign.key"))
    mine, memory, others, floors = [], [], [], []
    for _ in range(rounds):
        seconds, peak = extract_ours(large, host, work, work / "ours")
        mine.append(seconds)
        memory.append(peak)
        if shutil.which("skopeo") is not None:
            others.append(extract_theirs(large, work))
        floors.append(extract_plain(work / "cache", work))
    small_memory = [extract_ours(small, host, work, work / "ours")[1] for _ in range(3)]
    again, _ = run_again(large, host, work)
    median = statistics.median
    return {
        "image_mib": size >> 20,
        "rounds": rounds,
        "ours_s": round(median(mine), 2),
        **compare(others, median(mine)),
        "tar_x_s": round(median(floors), 2),
        "ours_to_tar_x": round(median(mine) / median(floors), 2),
        "ours_again_s": round(again, 2),
        "peak_mib": round(median(memory) / 1024),
        "peak_mib_at_an_eighth": round(median(small_memory) / 1024),
    }


def compare(others: list[dict[str, float]], ours_seconds: float) -> dict[str, object]:
    if not others:
        return {"three_to_ours": "not measured: skopeo is not installed"}
    three = statistics.median(sum(each.values()) for each in others)
    return {
        "three_s": round(three, 2),
        "three_steps_s": {name: round(statistics.median(each[name] for each in others), 2) for name in others[0]},
        "three_to_ours": Figure(round(three / ours_seconds, 2), AIM_OF_RATIO, at_least=True),
    }


def run_again(image: str, host: str, work: Path) -> tuple[float, int]:
    accelkit = str(Path(sys.executable).with_name("accelkit"))
    command = (accelkit, "cache", "extract", image, str(work / "ours"))
    run(*command, "--policy", str(work / "policy.yml"), "--plain-http", host)
    return run(*command, "--policy", str(work / "policy.yml"), "--plain-http", host)


if __name__ == "__main__":
    main()
