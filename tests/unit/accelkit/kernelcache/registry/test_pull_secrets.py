"""Pull secrets are read one by one; what they name is not run."""

from __future__ import annotations

import base64
import json

import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.registry.pull_secrets import PullSecretError, read_pull_secrets

IMAGE = parse_reference("q.io/acme/cache:v1")


PLACE = "/api/v1/namespaces/team/secrets"


def serve(**answers: object) -> FakeApi:
    """An API server with these Secrets, or errors."""
    api = FakeApi()
    for name, answer in answers.items():
        if isinstance(answer, ApiError):
            api.fail(answer, path=f"{PLACE}/{name}")
        else:
            api.documents[f"{PLACE}/{name}"] = answer
    return api


def secret(document: object, key: str = ".dockerconfigjson") -> dict[str, object]:
    return {"data": {key: base64.b64encode(json.dumps(document).encode()).decode()}}


def auth(user: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:word".encode()).decode()}


async def test_first_secret_with_login_for_registry_is_used():
    api = serve(a=secret({"auths": {"other.io": auth("a")}}), b=secret({"q.io": auth("b")}, ".dockercfg"))
    credentials = await read_pull_secrets(api, "team", ("a", "b"))
    assert (await credentials.find_login(IMAGE)).username == "b"
    assert len(api.requests) == 2


async def test_credential_helper_of_secret_is_not_executed():
    api = serve(a=secret({"credsStore": "evil", "credHelpers": {"q.io": "evil"}}))
    assert await (await read_pull_secrets(api, "team", ("a",))).find_login(IMAGE) is None


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (ApiError("no", status=404, reason="NotFound"), "create it in team"),
        (ApiError("no", status=403, reason="Forbidden"), "add team to kernel_cache_pull_secret_namespaces"),
        ({"data": {"password": "eA=="}}, "kubectl create secret docker-registry"),
        ({"data": {".dockerconfigjson": "%%%"}}, "is not base64"),
        ({"data": {".dockerconfigjson": "WzFd"}}, "cannot read "),
        ({"data": 5}, "cannot read "),
    ],
)
async def test_unusable_secret_is_reported_with_next_step(answer, says):
    api = serve(a=answer)
    with pytest.raises(PullSecretError) as caught:
        await read_pull_secrets(api, "team", ("a",))
    assert says in str(caught.value)
    assert "team/a" in str(caught.value)


async def test_api_server_failure_is_not_reported_as_secret_error():
    with pytest.raises(ApiError):
        await read_pull_secrets(serve(a=ApiError("away")), "team", ("a",))
