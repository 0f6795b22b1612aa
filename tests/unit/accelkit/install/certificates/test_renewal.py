"""What is renewed without Ansible, and what is only told."""

import base64
import copy
import logging
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner
from cryptography import x509
from fake_api.server import FakeApi

from accelkit.cli import main
from accelkit.errors import ApiError, CertificateError, ConfigurationError
from accelkit.install.certificates import issuing
from accelkit.install.certificates.issuing import Authority
from accelkit.install.certificates.renewal import renew_leaf, run_renewal
from accelkit.install.certificates.secrets import CLIENT, SERVER, WEBHOOK, check_leaf
from accelkit.kube.paths import build_object_path, build_secrets_path
from accelkit.model.validity import find_end

NAMES = ("accelkit-extender.accelkit.svc", "10.96.0.20")
SECRET = build_object_path(build_secrets_path("d"), SERVER)
EVENTS = "/api/v1/namespaces/d/events"
MONTH = timedelta(days=30)
# A minute ago, in days.
ENDED = -1 / 1440


def soon():
    return datetime.now(UTC) + MONTH


@pytest.fixture(scope="module")
def authority():
    return Authority("ours", timedelta(days=3650))


@pytest.fixture
def issue(monkeypatch, authority):
    """Issue a serving certificate that ends in so many days."""

    def issue(days, by=authority):
        monkeypatch.setattr(issuing, "LEAF_LIFETIME", timedelta(days=days))
        leaf = by.issue_server("accelkit-extender", NAMES)
        monkeypatch.undo()
        return leaf

    return issue


def test_expiring_certificate_is_renewed_with_same_names_and_authority(authority, issue):
    former = issue(29)
    renewed = renew_leaf(authority.pair, former, soon())
    check_leaf(renewed, authority.certificate, SERVER, NAMES, datetime.now(UTC) + timedelta(days=364))
    was, now = (x509.load_pem_x509_certificate(each.certificate) for each in (former, renewed))
    assert was.subject == now.subject
    assert former.key != renewed.key


def test_expired_certificate_is_renewed(authority, issue):
    assert find_end((ended := issue(ENDED)).certificate) < datetime.now(UTC)
    assert renew_leaf(authority.pair, ended, soon()) is not None


def test_certificate_with_enough_validity_is_not_renewed(authority, issue):
    assert renew_leaf(authority.pair, issue(31), soon()) is None


def test_certificate_of_another_authority_with_same_name_is_not_renewed(authority, issue):
    with pytest.raises(CertificateError):
        renew_leaf(authority.pair, issue(1, Authority("ours")), soon())


def test_expired_authority_does_not_sign(issue):
    ended = Authority("ended", timedelta(seconds=-1))
    with pytest.raises(CertificateError):
        renew_leaf(ended.pair, issue(1, ended), soon())


@pytest.mark.parametrize("part", ["certificate", "key"])
def test_unreadable_authority_is_an_error_with_next_step(authority, issue, part):
    garbled = issuing.KeyPair(**{"certificate": authority.pair.certificate, "key": authority.pair.key, part: b"x"})
    with pytest.raises(ConfigurationError, match="cannot read a certificate") as raised:
        renew_leaf(garbled, issue(1), soon())
    assert raised.value.next_step == "run site.yml"


class World:
    """A Secret on an API server, the authority's files, and certificates that are watched."""

    def __init__(self, folder, authority):
        self.api, self.signer, self.watched = FakeApi(), folder / "authority", folder / "watched"
        for each in (self.signer, self.watched):
            each.mkdir()
        (self.signer / "tls.crt").write_bytes(authority.pair.certificate)
        (self.signer / "tls.key").write_bytes(authority.pair.key)

    def keep(self, leaf):
        data = {"tls.crt": leaf.certificate, "tls.key": leaf.key, "ca.crt": b"bundle"}
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        metadata = {"name": SERVER, "namespace": "d", "labels": {"kept": "yes"}}
        self.api.store(build_secrets_path("d"), {"metadata": metadata, "type": "kubernetes.io/tls", "data": encoded})

    def read(self, key):
        return base64.b64decode(self.api.objects[SECRET]["data"][key])

    async def renew(self):
        paths = {"authority": self.signer, "watched": self.watched}
        await run_renewal(self.api, namespace="d", secrets=[SERVER], renew_before=MONTH, **paths)

    @property
    def events(self):
        return [request.body for request in self.api.writes if request.path == EVENTS]


@pytest.fixture
def world(tmp_path, authority):
    return World(tmp_path, authority)


async def test_renewal_changes_only_certificate_and_key_of_the_secret(world, authority, issue):
    world.keep(issue(10))
    await world.renew()
    assert find_end(world.read("tls.crt")) > datetime.now(UTC) + timedelta(days=360)
    assert world.read("ca.crt") == b"bundle"
    secret = world.api.objects[SECRET]
    assert (secret["metadata"]["labels"], secret["type"]) == ({"kept": "yes"}, "kubernetes.io/tls")
    assert world.events == []
    again = world.read("tls.crt")
    await world.renew()
    assert world.read("tls.crt") == again


async def test_each_named_secret_is_renewed_independently(world, issue):
    world.keep(issue(10))
    second = copy.deepcopy(world.api.objects[SECRET])
    second["metadata"]["name"] = WEBHOOK
    world.api.store(build_secrets_path("d"), second)
    world.keep(issue(100))
    paths = {"authority": world.signer, "watched": world.watched}
    await run_renewal(world.api, namespace="d", secrets=[SERVER, WEBHOOK], renew_before=MONTH, **paths)
    puts = [request.path.rpartition("/")[2] for request in world.api.writes if request.method == "PUT"]
    assert puts == [WEBHOOK]


async def test_only_the_secret_is_read_and_valid_certificate_is_not_written(world, issue):
    world.keep(issue(100))
    await world.renew()
    assert [(request.method, request.path) for request in world.api.requests] == [("GET", SECRET)]


async def test_concurrent_change_of_the_secret_is_not_overwritten(world, issue):
    world.keep(issue(10))

    def change(request):
        if request.method == "PUT":
            world.api.objects[SECRET]["data"]["tls.crt"] = "YQ=="

    world.api.before.append(change)
    with pytest.raises(ApiError) as raised:
        await world.renew()
    assert raised.value.conflict
    assert world.read("tls.crt") == b"a"


async def test_expiring_certificate_of_another_issuer_is_reported_and_kept(world, issue, caplog):
    caplog.set_level(logging.WARNING)
    foreign = issue(10, Authority("cert-manager"))
    world.keep(foreign)
    await world.renew()
    assert world.read("tls.crt") == foreign.certificate
    (event,) = world.events
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Secret", "name": SERVER, "namespace": "d"}
    assert (event["reason"], event["type"]) == ("CertificateEnds", "Warning")
    assert "accelkit's authority did not issue it" in event["message"]
    assert caplog.messages == [event["message"]]


async def test_expiring_watched_certificates_are_reported_with_next_step(world, issue):
    world.keep(issue(100))
    for name, days in ((CLIENT, 20), ("accelkit-ca", 3000), ("ended", ENDED)):
        (world.watched / f"{name}.crt").write_bytes(issue(days).certificate)
    await world.renew()
    assert [event["involvedObject"]["name"] for event in world.events] == [CLIENT, "ended"]
    ends = find_end((world.watched / f"{CLIENT}.crt").read_bytes())
    assert world.events[0]["message"] == (
        f"the certificate of Secret {CLIENT} is valid until {ends:%Y-%m-%d %H:%M} UTC; "
        "run site.yml to replace it everywhere"
    )


async def test_failed_event_write_does_not_fail_the_renewal(world, issue):
    world.keep(issue(100))
    (world.watched / f"{CLIENT}.crt").write_bytes(issue(1).certificate)
    world.api.fail(ApiError("no right", status=403), path="events")
    await world.renew()


@pytest.mark.parametrize(
    ("data", "missing"),
    [({}, "'tls.crt'"), (None, "'tls.crt'"), ({"tls.crt": "?", "tls.key": ""}, "base64")],
)
async def test_secret_without_certificate_is_an_error(world, issue, data, missing):
    world.keep(issue(1))
    world.api.objects[SECRET]["data"] = data
    with pytest.raises(ConfigurationError, match=f"certificate and its key from Secret d/{SERVER}: .*{missing}"):
        await world.renew()


async def test_unreadable_watched_certificate_is_an_error_after_the_renewal(world, issue):
    world.keep(issue(1))
    (world.watched / "x.crt").write_text("x")
    with pytest.raises(ConfigurationError, match=r"cannot read the certificate .*x\.crt"):
        await world.renew()
    assert find_end(world.read("tls.crt")) > soon()


async def test_missing_authority_file_is_an_error(world, issue):
    world.keep(issue(1))
    (world.signer / "tls.key").unlink()
    with pytest.raises(ConfigurationError, match=r"cannot read the certificate authority in "):
        await world.renew()


def test_command_requires_its_directory_options(tmp_path):
    assert CliRunner().invoke(main, ["renew-certificates", "--authority", str(tmp_path)]).exit_code == 2


def test_command_prints_one_error_sentence(tmp_path):
    paths = ["--authority", str(tmp_path), "--watch", str(tmp_path), "--kubeconfig", str(tmp_path / "none")]
    result = CliRunner().invoke(main, ["renew-certificates", *paths])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: cannot read kubeconfig")
