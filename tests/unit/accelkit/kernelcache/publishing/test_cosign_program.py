"""How cosign is called, and what it may see, with a program in its place that notes both."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from accelkit.errors import ConfigurationError, SignatureError
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.publishing.docker_config import write_docker_config
from accelkit.kernelcache.publishing.signing import Cosign, sign_image
from accelkit.kernelcache.registry import Login, RegistryCredentials, RegistrySettings

IMAGE = Reference("registry.example:5000", "acme/cache", "v1", f"sha256:{'1' * 64}")


@pytest.fixture
def called(tmp_path):
    """Write the program, with a help text and a last deed; it returns the path of its notes."""

    def write(options: str = "", deed: str = ":") -> tuple[str, Path]:
        program, notes = tmp_path / "cosign", tmp_path / "notes"
        listing = f'if [ "$2" = --help ]; then echo "{options}"; exit; fi'
        program.write_text(
            f'#!/bin/sh\n{listing}\necho "$@" >{notes}\n[ -z "$DOCKER_CONFIG" ] || cat "$DOCKER_CONFIG/config.json"'
            f" >>{notes}\n{deed}\n"
        )
        program.chmod(0o755)
        return str(program), notes

    return write


async def test_cosign_signs_digest_instead_of_tag(called):
    program, notes = called()
    await Cosign(program, "k8s://a/b").sign(IMAGE)
    assert notes.read_text() == f"sign --yes --key k8s://a/b registry.example:5000/acme/cache@{IMAGE.digest}\n"


@pytest.mark.parametrize(("options", "more"), [("", []), ("--use-signing-config", ["--use-signing-config=false"])])
async def test_option_that_disables_log_matches_cosign_version(called, options, more):
    program, notes = called(options)
    await Cosign(program, log=False).sign(IMAGE)
    assert notes.read_text().split()[2:-1] == ["--tlog-upload=false", *more]


async def test_cosign_receives_ca_file_and_plain_http_settings(called, tmp_path, monkeypatch):
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    program, notes = called()
    settings = RegistrySettings(plain_http=frozenset({IMAGE.registry}), ca_file=tmp_path / "ca.pem")
    await sign_image(IMAGE, Cosign(program), settings)
    told = ["--registry-cacert", str(tmp_path / "ca.pem"), "--allow-http-registry", "--allow-insecure-registry"]
    assert notes.read_text().splitlines()[0].split()[2:-1] == told
    await sign_image(IMAGE, Cosign(program), RegistrySettings())
    assert len(notes.read_text().split()) == 3


async def test_cosign_receives_login_only_if_requested(called, tmp_path, monkeypatch):
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    program, notes = called()
    settings = RegistrySettings(credentials=RegistryCredentials({IMAGE.registry: Login("team", "se:cret")}))
    await sign_image(IMAGE, Cosign(program), settings, lend_login=True)
    auths = json.loads(notes.read_text().splitlines()[1])["auths"]
    assert auths == {IMAGE.registry: {"auth": "dGVhbTpzZTpjcmV0"}}
    await sign_image(IMAGE, Cosign(program), settings)
    assert len(notes.read_text().splitlines()) == 1


@pytest.mark.parametrize(("registry", "key"), [("docker.io", "https://index.docker.io/v1/"), ("quay.io", "quay.io")])
def test_temporary_docker_config_is_private_and_deleted(registry, key):
    with write_docker_config(registry, Login("", "", "of the helper")) as environ:
        path = Path(environ["DOCKER_CONFIG"], "config.json")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert json.loads(path.read_text())["auths"][key]["identitytoken"] == "of the helper"
    assert not path.parent.exists()


def test_no_docker_config_is_written_without_login():
    with write_docker_config("quay.io", None) as environ:
        assert environ == {}


async def test_error_message_of_cosign_is_reported(called):
    program, _ = called(deed="echo no such key >&2; exit 1")
    with pytest.raises(SignatureError, match="cosign sign failed: no such key"):
        await Cosign(program).sign(IMAGE)


async def test_repeated_cosign_error_is_reported_once_without_warnings(called):
    words = (
        "echo WARNING: tags move; echo Error: signing: no such key; echo error during command execution: no such key"
    )
    program, _ = called(deed=f"({words}) >&2; exit 1")
    with pytest.raises(SignatureError) as failed:
        await Cosign(program).sign(IMAGE)
    assert failed.value.message == "cosign sign failed: no such key"


async def test_missing_cosign_is_reported_with_next_step():
    with pytest.raises(ConfigurationError, match=r"cannot sign .*: /nowhere/cosign is not installed; install cosign"):
        await Cosign("/nowhere/cosign").sign(IMAGE)
