"""Logins are found in Docker's files, in pull secrets and with credential helpers, each for its registry alone."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.registry import Login, RegistryCredentials, credentials

ANN, BOB, REFRESH = Login("ann", "a:secret"), Login("bob", "b"), Login("", "", "refresh")


def auth(login: Login) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{login.username}:{login.password}".encode()).decode()}


@pytest.fixture
def found(tmp_path):
    """Finds the login for a name in a file with this content."""

    async def find(content: object, name: str = "r.io/team/app") -> Login | None:
        path = tmp_path / "config.json"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return await RegistryCredentials.from_files([path]).find_login(parse_reference(name))

    return find


@pytest.fixture
def helper(tmp_path, monkeypatch):
    """Puts a credential helper `docker-credential-test` on the PATH; it notes what it was asked in a file."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")

    def write(script: str) -> Path:
        program = folder / "docker-credential-test"
        program.write_text(f'#!/bin/sh\nexec 3>>{folder}/asked\nserver=$(cat)\necho "$1 $server" >&3\n{script}\n')
        program.chmod(0o755)
        return folder / "asked"

    return write


ANSWER = """echo '{"ServerURL":"x","Username":"ann","Secret":"a:secret"}'"""


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (auth(ANN), ANN),
        ({"username": "ann", "password": "a:secret"}, ANN),
        ({**auth(BOB), "username": "ann", "password": "a:secret", "email": "ann@r.io"}, ANN),
        ({**auth(ANN), "identitytoken": "refresh"}, REFRESH),
        ({"auth": base64.b64encode(b"ann:a:secret\0\0").decode()}, ANN),
        ({}, None),
    ],
)
async def test_login_is_read_from_each_supported_field(found, entry, expected):
    assert await found({"auths": {"r.io": entry}}) == expected


@pytest.mark.parametrize(
    ("key", "name", "covered"),
    [
        ("r.io", "r.io/app", True),
        ("r.io", "evil.io/app", False),
        ("r.io", "r.io.evil.io/app", False),
        ("r.io", "r.io:5000/app", False),
        ("r.io:5000", "r.io:5000/app", True),
        ("localhost:5000", "localhost:5000/app", True),
        ("[::1]:5000", "[::1]:5000/app", True),
        ("https://r.io/v2/", "r.io/app", True),
        ("http://r.io/v1", "r.io/app", True),
        ("R.IO", "r.io/app", True),
        ("r.io/team", "r.io/team/app", True),
        ("r.io/team", "r.io/team", True),
        ("r.io/team/", "r.io/team/app", True),
        ("r.io/team", "r.io/teamster/app", False),
        ("r.io/team", "r.io/app", False),
        ("*.r.io", "a.r.io/app", True),
        ("*.r.io", "a.b.r.io/app", False),
        ("*.r.io", "r.io/app", False),
        ("a*.r.io/team", "ab.r.io/team/app", True),
        ("*.r.io", "a.r.io:5000/app", False),
        ("*.r.io:5000", "a.r.io:5000/app", True),
        ("https://index.docker.io/v1/", "app", True),
        ("docker.io", "app", True),
        ("registry-1.docker.io", "app", True),
        ("docker.io/team", "app", False),
        ("index.docker.io", "r.io/app", False),
    ],
)
async def test_key_matches_only_its_registry_and_path(found, key, name, covered):
    assert await found({"auths": {key: auth(ANN)}}, name) == (ANN if covered else None)


@pytest.mark.parametrize(
    ("near", "far"),
    [
        ("r.io/team", "r.io"),
        ("r.io/team", "https://r.io/v2/"),
        ("r.io/team/app", "r.io/team"),
        ("r.io", "*.io"),
        ("*.io/team", "r.io"),
    ],
)
async def test_most_specific_key_is_used(found, near, far):
    for keys in ((near, far), (far, near)):
        assert await found({"auths": {key: auth(ANN if key == near else BOB) for key in keys}}) == ANN


async def test_entry_without_login_falls_back_to_next_key(found):
    assert await found({"auths": {"r.io/team": {}, "r.io": auth(ANN)}}) == ANN


@pytest.mark.parametrize("key", ["r.io", "localhost:5000", "https://r.io"])
async def test_legacy_dockercfg_format_is_read(found, key):
    name = "localhost:5000/app" if "localhost" in key else "r.io/app"
    assert await found({key: {**auth(ANN), "email": "x"}}, name) == ANN


@pytest.mark.parametrize(
    "content", [{}, {"credsStore": ""}, {"HttpHeaders": {"a": "b"}}, {"auths": {}}, {"proxies": {"r.io": {"x": "y"}}}]
)
async def test_file_without_logins_returns_none(found, content):
    assert await found(content) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b'{"auths":[]}',
        b'{"auths":{"r.io":"x"}}',
        b'{"auths":{"r.io":{"auth":"?"}}}',
        b'{"auths":{"r.io":{"auth":"YW5u"}}}',
        b'{"auths":{"r.io":{"auth":"/zo="}}}',
        b'{"x":' + b"[" * 100_000,
    ],
    ids=range(9),
)
async def test_malformed_file_is_an_error_without_secrets(found, content):
    with pytest.raises(ConfigurationError) as refused:
        await found(content)
    assert "r.io" in str(refused.value) or "config.json" in str(refused.value)
    assert "YW5u" not in str(refused.value)


async def test_missing_file_is_an_error_if_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"none\.json"):
        RegistryCredentials.from_files([tmp_path / "none.json"])


async def test_first_source_with_login_is_used(tmp_path):
    for number, login in enumerate((ANN, BOB)):
        (tmp_path / f"{number}.json").write_text(json.dumps({"auths": {"r.io": auth(login)}}))
    (tmp_path / "empty.json").write_text("{}")
    files = [tmp_path / name for name in ("empty.json", "0.json", "1.json")]
    reference = parse_reference("r.io/app")
    assert await RegistryCredentials.from_files(files).find_login(reference) == ANN
    assert await RegistryCredentials.from_files(files, {"r.io": BOB}).find_login(reference) == BOB


async def test_direct_login_accepts_docker_hub_alias():
    assert await RegistryCredentials({"index.docker.io": ANN}).find_login(parse_reference("app")) == ANN


@pytest.mark.parametrize("variable", ["DOCKER_CONFIG", "HOME"])
async def test_docker_config_of_user_is_read(tmp_path, variable):
    folder = tmp_path if variable == "DOCKER_CONFIG" else tmp_path / ".docker"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"auths": {"r.io": auth(ANN)}}))
    credentials = RegistryCredentials.of_user({variable: str(tmp_path)})
    assert await credentials.find_login(parse_reference("r.io/app")) == ANN


async def test_missing_docker_config_of_user_is_allowed(tmp_path):
    assert await RegistryCredentials.of_user({"HOME": str(tmp_path)}).find_login(parse_reference("r.io/app")) is None


def test_login_repr_hides_secrets():
    assert "secret" not in repr(Login("ann", "secret", "secret"))


# Helpers


async def test_credential_helper_is_called_for_its_registry(found, helper):
    asked = helper(ANSWER)
    assert await found({"credHelpers": {"r.io": "test"}, "auths": {"r.io": auth(BOB)}}) == ANN
    assert asked.read_text() == "get r.io\n"


async def test_credential_helper_is_not_called_for_another_registry(found, helper):
    asked = helper(ANSWER)
    assert await found({"credHelpers": {"r.io": "test"}}, "other.io/app") is None
    assert not asked.exists()


@pytest.mark.parametrize(("name", "server"), [("r.io/app", "r.io"), ("app", "https://index.docker.io/v1/")])
async def test_credential_store_is_called_if_no_entry_has_login(found, helper, name, server):
    asked = helper(ANSWER)
    assert await found({"credsStore": "test", "auths": {"r.io": {}}}, name) == ANN
    assert asked.read_text() == f"get {server}\n"


async def test_credential_helper_may_return_refresh_token(found, helper):
    helper("""echo '{"Username":"<token>","Secret":"refresh"}'""")
    assert await found({"credsStore": "test"}) == REFRESH


@pytest.mark.parametrize("stream", ["", ">&2"])
async def test_credential_helper_without_login_returns_none(found, helper, stream):
    helper(f"echo 'credentials not found in native keychain' {stream}; exit 1")
    assert await found({"credsStore": "test"}) is None


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo the keychain is locked >&2; exit 1", "the keychain is locked"),
        ("echo rubbish", "does not have the format of its protocol"),
    ],
)
async def test_failing_credential_helper_is_an_error(found, helper, script, words):
    helper(script)
    with pytest.raises(ConfigurationError, match=words):
        await found({"credsStore": "test"})


async def test_hanging_credential_helper_times_out(found, helper, monkeypatch):
    monkeypatch.setattr(credentials, "_HELPER_SECONDS", 0.2)
    helper("exec sleep 60")
    with pytest.raises(ConfigurationError, match="did not respond"):
        await found({"credsStore": "test"})


@pytest.mark.parametrize("name", ["none-of-this-name", "../evil", "a b", "x;y"])
async def test_credential_helper_that_cannot_start_is_an_error(found, name):
    with pytest.raises(ConfigurationError, match="credential helper"):
        await found({"credsStore": name})
