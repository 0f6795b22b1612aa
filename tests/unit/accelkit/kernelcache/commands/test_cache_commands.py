"""What `accelkit cache …` prints for people and programs, and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from private_sigstore import PrivateSigstore
from registries import misbehaviour
from registries.artifact import Artifact
from registries.caches import cache_folder, publish, sign, write_policy
from registries.hostile import HostileRegistry
from ruamel.yaml import YAML

from accelkit.cli import main
from accelkit.kernelcache.commands import cache

IDENTITY = "https://github.com/acme/ci/.github/workflows/build.yml@refs/heads/main"
SIGSTORE = PrivateSigstore.new()
KEY = SIGSTORE.key()
OTHER_KEY = SIGSTORE.key()


class Bed:
    """A registry with the image of a cache, and the commands about it."""

    def __init__(self, registry: HostileRegistry, folder: Path) -> None:
        self.registry = registry
        self.host = registry.host
        self.folder = folder
        self.source = cache_folder(folder / "source")
        self.image: Artifact = publish(self.host, self.source)
        self.name = f"{self.host}/team/cache:v1"
        self.policy = write_policy(folder, self.host, KEY)

    def __call__(self, command: str, *arguments: object) -> Result:
        plain = [] if command == "verify-bundle" else ["--plain-http", self.host]
        given = ["cache", command, *map(str, arguments), *plain]
        return CliRunner().invoke(main, given, prog_name="accelkit", catch_exceptions=False)

    def verify(self, *arguments: object) -> Result:
        return self("verify", self.name, "--policy", self.policy, *arguments)

    def extract(self, *arguments: object) -> Result:
        return self("extract", self.name, self.folder / "caches", *arguments)

    @property
    def extracted(self) -> Path:
        return self.folder / "caches" / self.image.digest.replace(":", "-") / "cache"


@pytest.fixture
def bed(hostile_registry, tmp_path) -> Bed:
    return Bed(hostile_registry, tmp_path)


def lines(result: Result) -> list[str]:
    return result.stdout.splitlines()


def test_verify_prints_digest_and_signer_of_verified_image(bed):
    sign(bed.host, bed.image, KEY)
    result = bed.verify()
    fingerprint = KEY.key.fingerprint.hex()
    assert lines(result) == [
        f"Verified: {bed.name}",
        f"  digest  {bed.image.digest}",
        f"  signer  ci of policy acme: key sha256:{fingerprint}, no log entry (cosign-v3)",
    ]
    assert result.exit_code == 0


def test_verify_prints_identity_with_issuer_and_time(bed):
    sign(bed.host, bed.image, SIGSTORE.identity(IDENTITY), version=2)
    policy = write_policy(bed.folder, bed.host, identity=IDENTITY)
    root = bed.folder / "root.json"
    root.write_text(SIGSTORE.trusted_root_json)
    result = bed("verify", bed.name, "--policy", policy, "--trusted-root", root)
    assert result.exit_code == 0
    assert re.fullmatch(
        rf"  signer  ci of policy acme: {re.escape(IDENTITY)}, issued by https://token\S+, log entry 7, "
        r"signed 2025-06-01T\S+ \(cosign-v2\)",
        lines(result)[2],
    )


def test_json_and_yaml_verdicts_are_equal(bed):
    sign(bed.host, bed.image, KEY)
    read = json.loads(bed.verify("-o", "json").stdout)
    assert read == YAML(typ="safe").load(bed.verify("-o", "yaml").stdout)
    assert (read["verified"], read["digest"], read["reason"]) == (True, bed.image.digest, None)
    (signature,) = read["signatures"]
    assert (signature["signer"], signature["format"], signature["log_index"]) == ("ci", "cosign-v3", None)


def test_refusal_exits_with_1_and_prints_next_step(bed):
    result = bed.verify()
    assert result.exit_code == 1
    (line,) = lines(result)
    assert line.startswith(f"Refused: {bed.name}@{bed.image.digest} does not satisfy policy acme: NoSignatures: ")
    assert line.endswith(f"; sign the image: cosign sign {bed.host}/team/cache@{bed.image.digest}")


def test_rejected_signatures_are_listed(bed):
    sources = [sign(bed.host, bed.image, OTHER_KEY), sign(bed.host, bed.image, OTHER_KEY, version=2)]
    first, *others = lines(bed.verify())
    assert first.startswith("Refused: ")
    assert [re.match(r"  (\S+ \S+).*?: SignatureInvalid: ", each) is not None for each in others] == [True, True]
    assert sources[0] in others[0]


def test_json_refusal_contains_reason_of_each_signature(bed):
    sign(bed.host, bed.image, OTHER_KEY)
    result = bed.verify("-o", "json")
    read = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (read["verified"], read["digest"], read["retryable"]) == (False, None, False)
    assert read["reason"] == read["failures"][0]["reason"] == "SignatureInvalid"


def test_unavailable_registry_exits_with_3(bed, monkeypatch):
    monkeypatch.setattr("accelkit.kernelcache.registry.exchange._FIRST_BACK_OFF_SECONDS", 0.001)
    bed.registry.on("GET", ".*/manifests/.*", misbehaviour.failing(403))
    assert bed.verify().exit_code == 1
    bed.registry.on("GET", ".*/manifests/.*", misbehaviour.failing(503, retry_after="0"))
    result = bed.verify()
    assert result.exit_code == 3
    assert lines(result)[0].startswith(f"Unknown: cannot verify {bed.name}: ")
    assert json.loads(bed.verify("-o", "json").stdout)["retryable"] is True
    for command in (bed("inspect", bed.name), bed.extract("--policy", bed.policy)):
        assert command.exit_code == 3
        assert command.stderr.startswith("Error: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", "IMAGE"], "specify --policy: no image is trusted without a policy"),
        (["verify", "IMAGE", "--policy", "/nowhere"], "'/nowhere' does not exist"),
        (["extract", "IMAGE", "DIR"], "specify either --policy or --insecure-skip-signatures"),
        (["extract", "IMAGE", "DIR", "--insecure-skip-signatures", "--max-gib", "0"], "0 is not in the range x>=1"),
        (["inspect", "IMAGE", "--node", "n", "--card", "cuda:90"], "specify --node or --card"),
        (["build", "DIR", "IMAGE", "--no-push", "--sign"], "cannot sign an image that is not pushed: remove --no-push"),
        (["build", "/nowhere", "IMAGE"], "'/nowhere' does not exist"),
        (["verify-bundle", "--bundle", "BUNDLE", "x"], "specify --certificate-identity and --certificate-oidc-issuer"),
    ],
)
def test_usage_error_exits_with_2_and_names_the_cause(bed, arguments, message):
    words = {"IMAGE": bed.name, "DIR": bed.source, "BUNDLE": bed.policy}
    result = bed(*(str(words.get(each, each)) for each in arguments))
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", "quay.io/Acme/x", "--policy", "POLICY"], "'Acme/x' is not a repository in lower case"),
        (["verify", "quay.io/acme/x", "--policy", "KERNEL"], "is invalid: "),
        (["inspect", "IMAGE", "--card", "h100"], "Error: 'h100' is not a valid card; write it as cuda:90"),
        (
            ["inspect", "IMAGE", "--card", "cuda:90", "--driver-version", "R550"],
            "Error: 'R550' is not a valid version; use numbers, such as 550.54.14 or 12.4",
        ),
        (
            ["inspect", "IMAGE", "--card", "cuda:90", "--torch-cuda-version", "cu128"],
            "Error: 'cu128' is not a valid version; use numbers",
        ),
        (
            ["inspect", "IMAGE", "--driver-version", "550.54.14"],
            "Error: a driver version requires cards; specify",
        ),
        (
            ["inspect", "IMAGE", "--triton-version", "3.2.0"],
            "Error: cannot use workload versions without cards; specify",
        ),
        (
            ["verify", "IMAGE", "--policy", "POLICY", "--vllm-cache-hash", "aa"],
            "cannot use workload versions without cards",
        ),
        (["inspect", "IMAGE", "--mirror", "quay.io"], "'quay.io' is not a valid mirror"),
        (["build", "EMPTY", "IMAGE"], "contains no supported kernel cache"),
        (["build", "SOURCE", "IMAGE", "--sign", "--cosign", "/nowhere"], "/nowhere is not installed"),
    ],
)
def test_error_is_one_line_and_exits_with_1(bed, arguments, message):
    (bed.folder / "empty").mkdir()
    words = {"IMAGE": bed.name, "POLICY": bed.policy, "SOURCE": bed.source, "EMPTY": bed.folder / "empty"}
    words["KERNEL"] = next(bed.source.glob("*/add_kernel.json"))
    result = bed(*(str(words.get(each, each)) for each in arguments))
    assert result.exit_code == 1
    (line,) = (result.stderr or result.stdout).splitlines()
    assert message in line


def test_inspect_prints_labels_of_image_and_marks_missing_values(bed):
    result = bed("inspect", bed.name)
    assert result.exit_code == 0
    assert [line.split(" ", 1)[0] for line in lines(result)] == [
        *("image", "format", "size", "entries", "made", "made", "card", "launchers")
    ]
    assert "made for   cuda 90, 32 threads per warp" in lines(result)
    assert "made with  Triton 3.2.0" in lines(result)
    assert "card       not stated" in lines(result)


def test_inspect_prints_compatibility_of_each_card_with_reasons(bed):
    result = bed("inspect", bed.name, "--card", "cuda:90", "--card", "hip:gfx942=AMD Instinct MI300X")
    assert lines(result)[-5:] == [
        "fits       some of the cards",
        "  card-0: compatible, may hit; not all factors are known",
        "    the cache was compiled with Triton 3.2.0, but the workload's value is unknown",
        "  card-1: incompatible, will not hit",
        "    BackendMismatch: the cache was compiled for cuda, but the card is hip",
    ]


@pytest.mark.parametrize(
    ("version", "hit", "line"),
    [
        ("3.2.0", "will likely hit", "the cache was compiled with Triton 3.2.0, as the workload requires"),
        (
            "3.3.0",
            "will not hit",
            "TritonMismatch: the cache was compiled with Triton 3.2.0, but the workload uses 3.3.0",
        ),
    ],
)
def test_inspect_prints_likelihood_of_cache_hit_with_reason(bed, version, hit, line):
    result = bed("inspect", bed.name, "--card", "cuda:90", "--triton-version", version)
    assert lines(result)[-2:] == [f"  card-0: compatible, {hit}", f"    {line}"]


def test_json_output_contains_hit_and_its_factors(bed):
    given = ("inspect", bed.name, "--card", "cuda:90", "-o", "json")
    (card,) = json.loads(bed(*given, "--triton-version", "3.2.0").stdout)["compatibility"]["cards"]
    message = "the cache was compiled with Triton 3.2.0, as the workload requires"
    assert (card["hit"], card["factors"]) == ("likely", [{"name": "Triton", "agrees": True, "message": message}])
    (card,) = json.loads(bed(*given).stdout)["compatibility"]["cards"]
    assert (card["hit"], card["factors"][0]["agrees"]) == ("arch-only", None)


@pytest.mark.parametrize(
    ("driver", "verdict", "reason"),
    [
        ([], "unknown", "DriverUnknown: the cache needs a minimum driver version, but the card's driver is unknown"),
        (["--driver-version", "550.54.14"], "compatible", None),
        (
            ["--driver-version", "535.161.08"],
            "incompatible",
            "PtxTooNew: the cache needs PTX ISA 8.4, but the driver supports only CUDA 12.2",
        ),
        (
            ["--driver-cuda-version", "12.3"],
            "incompatible",
            "PtxTooNew: the cache needs PTX ISA 8.4, but the driver supports only CUDA 12.3",
        ),
    ],
)
def test_driver_version_decides_whether_card_can_load_the_cache(bed, driver, verdict, reason):
    folder = cache_folder(bed.folder / "newer", ptx_version=84)
    publish(bed.host, folder, tag="newer")
    name = f"{bed.host}/team/cache:newer"
    result = bed("inspect", name, "--card", "cuda:90", *driver, "-o", "json")
    (card,) = json.loads(result.stdout)["compatibility"]["cards"]
    assert (card["verdict"], card["reasons"]) == (verdict, [] if reason is None else [reason])
    extracted = bed("extract", name, bed.folder / "caches", "--insecure-skip-signatures", "--card", "cuda:90", *driver)
    assert extracted.exit_code == (1 if verdict == "incompatible" else 0)


def test_verify_prints_compatibility_of_the_cards(bed):
    sign(bed.host, bed.image, KEY)
    result = bed.verify("--card", "cuda:90", "--card", "cuda:80", "--triton-version", "3.2.0")
    assert result.exit_code == 0
    assert lines(result)[3:] == [
        "  fits    some of the cards",
        "  card-0: compatible, will likely hit",
        "    the cache was compiled with Triton 3.2.0, as the workload requires",
        "  card-1: incompatible, will not hit",
        "    ArchMismatch: the cache was compiled for 90, but the card is 80",
    ]
    read = json.loads(bed.verify("--card", "cuda:80", "-o", "json").stdout)
    assert (read["verified"], read["compatibility"]["fit"]) == (True, "none")
    assert json.loads(bed.verify("-o", "json").stdout)["compatibility"] is None


def test_cards_do_not_change_signature_verdict(bed):
    result = bed.verify("--card", "cuda:90", "-o", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["compatibility"] is None


def test_json_inspection_distinguishes_unknown_from_none(bed):
    read = json.loads(bed("inspect", bed.name, "-o", "json").stdout)
    assert (read["digest"], read["entries"], read["cpu_architecture"], read["compatibility"]) == (
        *(bed.image.digest, 1, None, None),
    )
    assert read["targets"][0]["arch"] == "90"


def test_inspect_fetches_no_layer(bed):
    layer = json.loads(bed.image.manifest)["layers"][0]["digest"]
    bed("inspect", bed.name)
    assert bed.registry.received("GET", f".*/blobs/{layer}") == []


def test_extract_prints_path_and_signer(bed):
    sign(bed.host, bed.image, KEY)
    result = bed.extract("--policy", bed.policy)
    assert result.exit_code == 0
    assert lines(result)[:3] == [
        f"Extracted: {bed.name}@{bed.image.digest}",
        f"  path       {bed.extracted}",
        f"  mount path {bed.extracted}",
    ]
    assert lines(result)[-1].endswith("(cosign-v3, policy acme)")
    assert len([*bed.extracted.rglob("*.cubin")]) == 1


def test_second_extraction_reports_no_change(bed):
    first = json.loads(bed.extract("--insecure-skip-signatures", "-o", "json").stdout)
    again = json.loads(bed.extract("--insecure-skip-signatures", "-o", "json").stdout)
    assert (first["changed"], again["changed"]) == (True, False)
    assert {**first, "changed": False} == again
    assert lines(bed.extract("--insecure-skip-signatures"))[0].startswith("Already extracted: ")


def test_extract_without_policy_prints_that_signatures_were_not_checked(bed):
    assert lines(bed.extract("--insecure-skip-signatures"))[-1] == "  signed     not checked"


def test_refused_image_writes_nothing(bed):
    result = bed.extract("--policy", bed.policy)
    assert result.exit_code == 1
    assert "NoSignatures" in result.stderr
    assert not (bed.folder / "caches").exists()


def test_incompatible_image_writes_nothing(bed):
    result = bed.extract("--insecure-skip-signatures", "--card", "cuda:80")
    assert result.exit_code == 1
    assert "fits none of the cards (ArchMismatch: the cache was compiled for 90, but the card is 80)" in result.stderr
    assert not (bed.folder / "caches").exists()


def test_mount_path_option_is_printed_and_written_into_group_files(bed):
    result = bed.extract("--insecure-skip-signatures", "--mount-path", "/home/vllm/.triton", "--card", "cuda:90")
    assert "  mount path /home/vllm/.triton" in lines(result)
    assert "  fits       all of the cards" in lines(result)
    (group,) = bed.folder.glob("caches/*/cache/*/__grp__*.json")
    assert all(path.startswith("/home/vllm/.triton/") for path in json.loads(group.read_text())["child_paths"].values())


def test_build_without_push_prints_the_digest(bed):
    name = f"{bed.host}/team/cache:v2"
    result = bed("build", bed.source, name, "--no-push", "--architecture", "amd64")
    assert lines(result)[:3] == [
        f"Built, not pushed: {name}",
        f"  digest  {bed.image.digest}",
        f"  cache   1 entry in 3 files, {lines(result)[2].split(', ')[1]}",
    ]
    assert bed.registry.honest.manifest("team/cache", "v2") is None


@pytest.mark.parametrize("signed", [True, False])
def test_build_prints_whether_image_was_signed(bed, signed):
    program = bed.folder / "cosign"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    result = bed("build", bed.source, f"{bed.host}/team/cache:v3", "--cosign", program, *(["--sign"] if signed else []))
    assert result.exit_code == 0
    assert ("  signed  by cosign" in lines(result)) == signed


def test_build_pushes_the_printed_digest(bed):
    result = bed("build", bed.source, f"{bed.host}/team/zstd:v1", "--compression", "zstd", "-o", "json")
    read = json.loads(result.stdout)
    assert (read["pushed"], read["uploaded_bytes"] > read["compressed_bytes"]) == (True, True)
    assert bed.registry.honest.manifest("team/zstd", read["digest"]) is not None


def test_copy_includes_signatures_unless_disabled(bed):
    sign(bed.host, bed.image, KEY)
    name = f"{bed.host}/team/copy:v1"
    result = bed("copy", bed.name, name)
    assert lines(result)[:3] == [
        f"Copied: {name}",
        f"  digest  {bed.image.digest}",
        "  signed  1 signature copied",
    ]
    assert bed("verify", name, "--policy", bed.policy).exit_code == 0
    without = bed("copy", bed.name, f"{bed.host}/team/bare:v1", "--no-signatures")
    assert "  signed  no signatures copied" in lines(without)


@pytest.mark.parametrize("command", cache.commands.values(), ids=str)
def test_every_option_has_help(command):
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert len(options) > 4
    assert [each.name for each in options if not each.help] == []
    assert command.short_help.endswith(".")
    assert cache.epilog.startswith("Exit codes: 0 success, 1 an error or a rejection")
