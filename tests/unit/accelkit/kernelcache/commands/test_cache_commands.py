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


def test_a_verified_image_is_shown_with_its_digest_and_signer(bed):
    sign(bed.host, bed.image, KEY)
    result = bed.verify()
    fingerprint = KEY.key.fingerprint.hex()
    assert lines(result) == [
        f"Verified: {bed.name}",
        f"  digest  {bed.image.digest}",
        f"  signer  ci of policy acme: key sha256:{fingerprint}, no log entry (cosign-v3)",
    ]
    assert result.exit_code == 0


def test_an_identity_is_shown_with_who_vouched_and_when(bed):
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


def test_a_verdict_is_the_same_as_json_and_as_yaml(bed):
    sign(bed.host, bed.image, KEY)
    read = json.loads(bed.verify("-o", "json").stdout)
    assert read == YAML(typ="safe").load(bed.verify("-o", "yaml").stdout)
    assert (read["verified"], read["digest"], read["reason"]) == (True, bed.image.digest, None)
    (signature,) = read["signatures"]
    assert (signature["signer"], signature["format"], signature["log_index"]) == ("ci", "cosign-v3", None)


def test_a_refusal_ends_with_1_and_says_what_to_do(bed):
    result = bed.verify()
    assert result.exit_code == 1
    (line,) = lines(result)
    assert line.startswith(f"Refused: {bed.name}@{bed.image.digest} does not satisfy policy acme: NoSignatures: ")
    assert line.endswith(f"; sign the image: cosign sign {bed.host}/team/cache@{bed.image.digest}")


def test_several_signatures_that_do_not_count_are_listed(bed):
    sources = [sign(bed.host, bed.image, OTHER_KEY), sign(bed.host, bed.image, OTHER_KEY, version=2)]
    first, *others = lines(bed.verify())
    assert first.startswith("Refused: ")
    assert [re.match(r"  (\S+ \S+).*?: SignatureInvalid: ", each) is not None for each in others] == [True, True]
    assert sources[0] in others[0]


def test_a_refusal_as_json_has_the_reason_of_each_signature(bed):
    sign(bed.host, bed.image, OTHER_KEY)
    result = bed.verify("-o", "json")
    read = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (read["verified"], read["digest"], read["retryable"]) == (False, None, False)
    assert read["reason"] == read["failures"][0]["reason"] == "SignatureInvalid"


def test_what_cannot_be_known_ends_with_3(bed, monkeypatch):
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
def test_wrong_usage_ends_with_2_and_names_what_is_wrong(bed, arguments, message):
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
def test_an_error_is_one_line_and_ends_with_1(bed, arguments, message):
    (bed.folder / "empty").mkdir()
    words = {"IMAGE": bed.name, "POLICY": bed.policy, "SOURCE": bed.source, "EMPTY": bed.folder / "empty"}
    words["KERNEL"] = next(bed.source.glob("*/add_kernel.json"))
    result = bed(*(str(words.get(each, each)) for each in arguments))
    assert result.exit_code == 1
    (line,) = (result.stderr or result.stdout).splitlines()
    assert message in line


def test_inspect_shows_what_an_image_says_and_marks_what_it_does_not(bed):
    result = bed("inspect", bed.name)
    assert result.exit_code == 0
    assert [line.split(" ", 1)[0] for line in lines(result)] == [
        *("image", "format", "size", "entries", "made", "made", "card", "launchers")
    ]
    assert "made for   cuda 90, 32 threads per warp" in lines(result)
    assert "made with  Triton 3.2.0" in lines(result)
    assert "card       not stated" in lines(result)


def test_inspect_judges_each_card_and_says_why(bed):
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
def test_inspect_says_how_likely_a_workload_finds_its_kernels_and_why(bed, version, hit, line):
    result = bed("inspect", bed.name, "--card", "cuda:90", "--triton-version", version)
    assert lines(result)[-2:] == [f"  card-0: compatible, {hit}", f"    {line}"]


def test_a_likelihood_as_json_has_what_it_was_judged_by(bed):
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
def test_the_driver_decides_what_a_card_can_load(bed, driver, verdict, reason):
    folder = cache_folder(bed.folder / "newer", ptx_version=84)
    publish(bed.host, folder, tag="newer")
    name = f"{bed.host}/team/cache:newer"
    result = bed("inspect", name, "--card", "cuda:90", *driver, "-o", "json")
    (card,) = json.loads(result.stdout)["compatibility"]["cards"]
    assert (card["verdict"], card["reasons"]) == (verdict, [] if reason is None else [reason])
    extracted = bed("extract", name, bed.folder / "caches", "--insecure-skip-signatures", "--card", "cuda:90", *driver)
    assert extracted.exit_code == (1 if verdict == "incompatible" else 0)


def test_verify_says_too_whether_the_cards_can_use_the_cache(bed):
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


def test_cards_change_no_verdict_on_signatures(bed):
    result = bed.verify("--card", "cuda:90", "-o", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["compatibility"] is None


def test_inspect_as_json_keeps_unknown_apart_from_none(bed):
    read = json.loads(bed("inspect", bed.name, "-o", "json").stdout)
    assert (read["digest"], read["entries"], read["cpu_architecture"], read["compatibility"]) == (
        *(bed.image.digest, 1, None, None),
    )
    assert read["targets"][0]["arch"] == "90"


def test_no_layer_is_fetched_to_inspect(bed):
    layer = json.loads(bed.image.manifest)["layers"][0]["digest"]
    bed("inspect", bed.name)
    assert bed.registry.received("GET", f".*/blobs/{layer}") == []


def test_extract_says_where_the_cache_lies_and_who_signed_it(bed):
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


def test_a_second_extraction_says_that_it_is_there(bed):
    first = json.loads(bed.extract("--insecure-skip-signatures", "-o", "json").stdout)
    again = json.loads(bed.extract("--insecure-skip-signatures", "-o", "json").stdout)
    assert (first["changed"], again["changed"]) == (True, False)
    assert {**first, "changed": False} == again
    assert lines(bed.extract("--insecure-skip-signatures"))[0].startswith("Already extracted: ")


def test_who_asked_for_no_signature_is_told_so(bed):
    assert lines(bed.extract("--insecure-skip-signatures"))[-1] == "  signed     not checked"


def test_nothing_is_written_of_an_image_that_is_refused(bed):
    result = bed.extract("--policy", bed.policy)
    assert result.exit_code == 1
    assert "NoSignatures" in result.stderr
    assert not (bed.folder / "caches").exists()


def test_nothing_is_written_of_an_image_that_fits_no_card(bed):
    result = bed.extract("--insecure-skip-signatures", "--card", "cuda:80")
    assert result.exit_code == 1
    assert "fits none of the cards (ArchMismatch: the cache was compiled for 90, but the card is 80)" in result.stderr
    assert not (bed.folder / "caches").exists()


def test_a_cache_for_another_path_names_that_path(bed):
    result = bed.extract("--insecure-skip-signatures", "--mount-path", "/home/vllm/.triton", "--card", "cuda:90")
    assert "  mount path /home/vllm/.triton" in lines(result)
    assert "  fits       all of the cards" in lines(result)
    (group,) = bed.folder.glob("caches/*/cache/*/__grp__*.json")
    assert all(path.startswith("/home/vllm/.triton/") for path in json.loads(group.read_text())["child_paths"].values())


def test_build_tells_the_digest_without_pushing(bed):
    name = f"{bed.host}/team/cache:v2"
    result = bed("build", bed.source, name, "--no-push", "--architecture", "amd64")
    assert lines(result)[:3] == [
        f"Built, not pushed: {name}",
        f"  digest  {bed.image.digest}",
        f"  cache   1 entry in 3 files, {lines(result)[2].split(', ')[1]}",
    ]
    assert bed.registry.honest.manifest("team/cache", "v2") is None


@pytest.mark.parametrize("signed", [True, False])
def test_build_tells_whether_it_signed(bed, signed):
    program = bed.folder / "cosign"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    result = bed("build", bed.source, f"{bed.host}/team/cache:v3", "--cosign", program, *(["--sign"] if signed else []))
    assert result.exit_code == 0
    assert ("  signed  by cosign" in lines(result)) == signed


def test_build_pushes_what_it_tells(bed):
    result = bed("build", bed.source, f"{bed.host}/team/zstd:v1", "--compression", "zstd", "-o", "json")
    read = json.loads(result.stdout)
    assert (read["pushed"], read["uploaded_bytes"] > read["compressed_bytes"]) == (True, True)
    assert bed.registry.honest.manifest("team/zstd", read["digest"]) is not None


def test_copy_brings_the_signatures_along(bed):
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
def test_help_explains_every_option(command):
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert len(options) > 4
    assert [each.name for each in options if not each.help] == []
    assert command.short_help.endswith(".")
    assert cache.epilog.startswith("Exit codes: 0 success, 1 an error or a rejection")
