"""A cache agent with registries that want a log-in, and with a Sigstore that is not the public one."""

from __future__ import annotations

import pytest
from cache_agent_bed import Bed
from cache_agent_stand import image
from private_sigstore import GITHUB, PrivateSigstore
from registries import misbehaviour

pytest_plugins = ["cache_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

ACCOUNT = "cache-agent-access"
USER, PASSWORD = "reader", "open sesame"
IDENTITY = "https://github.com/acme/ci/.github/workflows/build.yml@refs/heads/main"
SIGSTORE = PrivateSigstore.new()


async def test_pull_secret_of_one_cache_is_not_used_for_another_cache(bed: Bed):
    host = bed.registry.host
    mine, others = (
        await image(host, bed.folder, "team/mine"),
        await image(host, bed.folder, "team/others", "mul_kernel"),
    )
    bed.registry.on("*", ".*", misbehaviour.basic_auth(USER, PASSWORD))
    await bed.create(host)
    await bed.let_read_secrets(ACCOUNT)
    await bed.pull_secret("login", host, USER, PASSWORD)
    await bed.pull_secret("wrong", host, USER, "guessed")
    bed.registry.requests.clear()
    bed.start()
    await bed.cache(f"{host}/team/mine:v1", mine.digest, "mine", secrets=["login"])
    await bed.until("Ready", mine.digest, "mine")
    assert bed.leads_to(mine.digest, "mine")
    # The connection of one cache serves no other.
    for name, secrets, words in (
        ("bare", [], f"{host} requires a user name and a password for team/others"),
        ("wrong", ["wrong"], f"{host} returned HTTP 401"),
    ):
        await bed.cache(f"{host}/team/others:v1", others.digest, name, secrets=secrets)
        found = await bed.until("Extracted", others.digest, name, status="False", reason="ExtractionFailed")
        assert words in found["message"]
        assert not bed.link(name).is_symlink()
    told = bed.log.read_text() + str(await bed.report())
    assert PASSWORD not in told
    assert "guessed" not in told


async def test_unreadable_pull_secret_is_reported_and_retried(bed: Bed):
    host = bed.registry.host
    made = await image(host, bed.folder, "team/add")
    bed.registry.on("*", ".*", misbehaviour.basic_auth(USER, PASSWORD))
    await bed.create(host)
    bed.start()
    await bed.cache(f"{host}/team/add:v1", made.digest, secrets=["login"])
    found = await bed.until("Extracted", made.digest, status="False", reason="PullSecretUnreadable")
    assert f"cannot read Secret {bed.namespace}/login" in found["message"]
    assert "kernel_cache_pull_secret_namespaces" in found["message"]
    await bed.let_read_secrets(ACCOUNT)
    await bed.pull_secret("login", host, USER, PASSWORD)
    await bed.until("Ready", made.digest)
    assert bed.leads_to(made.digest)


async def test_keyless_signature_is_verified_with_configured_trusted_root(bed: Bed):
    host, root = bed.registry.host, bed.folder / "trusted_root.json"
    root.write_text(SIGSTORE.trusted_root_json)
    made = await image(host, bed.folder, "team/add", signer=SIGSTORE.identity(IDENTITY))
    other = await image(
        host, bed.folder, "team/other", "mul_kernel", SIGSTORE.identity("https://github.com/mallory/ci")
    )
    await bed.create(host, signer={"name": "ci", "keyless": {"issuer": GITHUB, "subject": IDENTITY}})
    # The public root knows neither its authority nor its log.
    bed.start()
    await bed.cache(f"{host}/team/add:v1", made.digest)
    found = await bed.until("Ready", made.digest, status="False", reason="LogEntryInvalid")
    assert "the trusted root does not contain the log" in found["message"]
    assert not bed.folders()
    bed.kill()
    bed.start("--trusted-root", str(root))
    await bed.until("Ready", made.digest)
    assert bed.leads_to(made.digest)
    # It vouches for identities, and the policy names one of them.
    await bed.cache(f"{host}/team/other:v1", other.digest, "other")
    await bed.until("Ready", other.digest, "other", status="False", reason="IdentityMismatch")
    assert not bed.link("other").is_symlink()
