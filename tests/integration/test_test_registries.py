"""The registries that tests rely on are what the tests take them for."""

import json
import ssl

import aiohttp
import jwt
import pytest
from private_sigstore import bundle_referrer, example_image
from registries.hostile import HostileRegistry
from registries.memory import digest_of
from registries.real import PASSWORD, USER
from registries.tls import serving
from registries.tokens import PUBLIC, SERVICE

IMAGE = example_image(bytes(range(256)) * 16)
LAYER = digest_of(IMAGE.blobs[-1])


@pytest.fixture
async def client():
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield session


async def test_open_ended_range_is_supported_only_by_some_registries(registry, client):
    repository = registry.repository()
    registry.push(repository, IMAGE)
    url = f"{registry.url}/v2/{repository}/blobs/{LAYER}"
    async with client.get(url, headers={"Range": "bytes=4000-"}) as answer:
        assert answer.status == (206 if registry.open_ranges else 416)


async def test_referrers_are_listed_only_with_referrers_api(registry, client):
    repository = registry.repository()
    registry.push(repository, IMAGE, tag="v1")
    referrer = bundle_referrer(b"{}", IMAGE)
    registry.push(repository, referrer)
    async with client.get(f"{registry.url}/v2/{repository}/referrers/{IMAGE.digest}") as answer:
        assert answer.status == (200 if registry.referrers else 404)
        listed = json.loads(await answer.read())["manifests"] if registry.referrers else []
    assert [each["digest"] for each in listed] == ([referrer.digest] if registry.referrers else [])


async def test_guarded_registry_rejects_request_without_credentials(guarded_registry, client):
    repository = guarded_registry.repository()
    guarded_registry.push(repository, IMAGE, tag="v1")
    async with client.get(f"{guarded_registry.url}/v2/{repository}/manifests/v1") as answer:
        assert answer.status == 401
        scheme = answer.headers["WWW-Authenticate"].split()[0].title()
    assert scheme == ("Basic" if guarded_registry.token_server is None else "Bearer")


async def test_token_is_valid_for_one_repository_only(token_registry, client):
    repository, other = token_registry.repository(), token_registry.repository()
    for each in (repository, other):
        token_registry.push(each, IMAGE, tag="v1")
    query = {"service": SERVICE, "scope": f"repository:{repository}:pull"}
    login = {"Authorization": aiohttp.encode_basic_auth(USER, PASSWORD)}
    async with client.get(f"{token_registry.token_server.url}/token", params=query, headers=login) as answer:
        bearer = {"Authorization": f"Bearer {(await answer.json())['token']}", "Accept": IMAGE.media_type}
    statuses = []
    for each in (repository, other):
        async with client.get(f"{token_registry.url}/v2/{each}/manifests/v1", headers=bearer) as answer:
            statuses.append(answer.status)
    assert statuses == [200, 401]


@pytest.mark.parametrize(("repository", "granted"), [(f"{PUBLIC}app", ["pull"]), ("team/app", None)])
async def test_anonymous_token_allows_only_pull_from_public_repositories(token_registry, client, repository, granted):
    query = {"service": SERVICE, "scope": f"repository:{repository}:pull,push"}
    async with client.get(f"{token_registry.token_server.url}/token", params=query) as answer:
        token = (await answer.json())["token"]
    claims = jwt.decode(token, options={"verify_signature": False})
    assert [each["actions"] for each in claims["access"]] == ([granted] if granted else [])


async def test_wrong_credentials_get_no_token(token_registry, client):
    login = {"Authorization": aiohttp.encode_basic_auth(USER, "wrong")}
    async with client.get(f"{token_registry.token_server.url}/token", headers=login) as answer:
        assert answer.status == 401


async def test_hostile_registry_serves_https_with_own_authority(client, tmp_path):
    context, trusted = serving(tmp_path)
    with HostileRegistry(tls=context) as registry:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await client.get(f"{registry.url}/v2/")
        async with client.get(f"{registry.url}/v2/", ssl=ssl.create_default_context(cafile=trusted)) as answer:
            assert answer.status == 200
