"""Readers and certificates of an extender behind its Service, by the rights that the roles give."""

import base64
import json
import ssl
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
from behind_service import CORE, NAMESPACE, Installation
from extender_process import world_of
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.install.certificates import issuing
from accelkit.install.certificates.issuing import KeyPair, StoredAuthority
from accelkit.install.certificates.secrets import CLIENT, SERVER
from accelkit.model.validity import find_end

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PROXY = f"{CORE}/services/https:accelkit-extender:read/proxy"
AUDIENCE = "accelkit.io/inspect"


@pytest.fixture(scope="module")
def installation(control_plane, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installation")
    with Installation(control_plane.kubeconfig, folder).applied() as installation:
        yield installation


@pytest.fixture
async def extender(installation):
    """The extender behind its Service, on a cluster with one node."""
    async with world_of(installation.kubeconfig) as world, installation.extender() as process:
        node = await world.node(1, 80)
        token = await installation.token("accelkit-inspector", NAMESPACE, AUDIENCE)

        async def shows():
            assert process.process.poll() is None, process.log.read_text()
            try:
                return node in (await read(installation, token, "/inspect"))[1]
            except ApiError:
                return False

        await until(shows)
        yield node


async def read(installation, token, path, method="GET", kubeconfig=None):
    """Ask through the API server's proxy; return status and text."""
    async with installation.api(kubeconfig) as api:
        try:
            answer = await api.get(PROXY + path, headers={"X-Accelkit-Token": token} if token else None)
        except ApiError as exc:
            if exc.reason:
                raise
            return exc.status, exc.message
    return 200, answer.decode()


async def read_directly(installation, method, path, **headers):
    """Ask the port itself, as a pod of the cluster can."""
    tls = ssl.create_default_context(cafile=installation.folder / "ca.crt")
    url = f"https://{installation.address}:{installation.read_port}{path}"
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
        session.request(
            method, url, ssl=tls, server_hostname=f"accelkit-extender.{NAMESPACE}.svc", headers=headers
        ) as response,
    ):
        return response.status, await response.text()


async def test_inspect_and_audit_need_only_kubeconfig(installation, extender):
    reader = await installation.account("reader", role="accelkit-inspector-user")
    shown = installation.run(reader, "inspect", "-o", "json")
    assert shown.returncode == 0, shown.stderr
    assert [node["name"] for node in json.loads(shown.stdout)["nodes"]] == [extender]
    assert extender in installation.run(reader, "inspect", extender).stdout
    unknown = installation.run(reader, "inspect", "x")
    assert unknown.stderr == "Error: node 'x' is unknown; GET /inspect lists the nodes with cards\n"
    audited = installation.run(installation.kubeconfig, "audit", "-o", "json", "--wait", "30")
    assert audited.returncode == 0, audited.stdout + audited.stderr
    assert not [note for note in json.loads(audited.stdout)["notes"] if "ledger" in note]
    # The Endpoints for the proxy are not mirrored into a second one.
    async with installation.api() as api:
        path = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
        assert [each["metadata"]["name"] for each in json.loads(await api.get(path))["items"]] == ["accelkit-extender"]


async def test_explain_works_for_user_with_read_access_to_pod(installation, extender):
    asker = await installation.account("asker", role="accelkit-inspector-user")
    async with world_of(installation.kubeconfig) as world, installation.api() as api:
        name = (await world.pod(100, spec={"terminationGracePeriodSeconds": 1}))["metadata"]["name"]
        refused = installation.run(asker, "explain", name)
        assert refused.returncode == 1
        assert "cannot read the pod: " in refused.stderr
        assert "ask an administrator for the ClusterRole `view` in namespace default" in refused.stderr
        roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
        await api.post(f"{roles}/roles", {"metadata": {"name": "asker"}, "rules": rules})
        of = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "asker"}
        subjects = [{"kind": "ServiceAccount", "name": "asker", "namespace": "default"}]
        await api.post(f"{roles}/rolebindings", {"metadata": {"name": "asker"}, "roleRef": of, "subjects": subjects})

        async def explained():
            return installation.run(asker, "explain", name).stdout.splitlines()

        less = "20 GiB less memory for container main (80 GiB instead of 100 GiB)"
        change = f"{less}: the pod would get card {extender}-0 of {extender}"
        assert await until(explained) == [
            f"Pod default/{name} is pending: it does not fit on the only node that shares cards.",
            f"Smallest change: {change}.",
            "kube-scheduler has not reported a result yet; the pod's schedulerName is none.",
            "Container main requests 100 GiB of one card.",
            "",
            f"1 node: insufficient accelkit.io/memory in one card ({extender})",
            f"  change: {change}",
            f"  cards of {extender}:",
            f"    {extender}-0  80 GiB of 80 GiB free, 100 GiB requested",
        ]


async def test_simulate_requires_permission_to_create_through_proxy(installation, extender):
    outsider = await installation.account("outsider")
    async with installation.api(outsider) as api:
        with pytest.raises(ApiError) as raised:
            await api.post(f"{PROXY}/simulate", {"pod": {"metadata": {}}})
        assert raised.value.forbidden
    async with installation.api() as api:
        # The API server lets an administrator pass, and the extender asks for a token all the same.
        with pytest.raises(ApiError) as raised:
            await api.post(f"{PROXY}/simulate", {"pod": {"metadata": {}}})
        assert (raised.value.status, raised.value.reason) == (401, "")
        token = await installation.token("accelkit-inspector", NAMESPACE, AUDIENCE)
        headers = {"X-Accelkit-Token": token}
        answer = await api.post(f"{PROXY}/simulate", {"pod": {"metadata": {}}}, headers=headers)
        assert [node["name"] for node in json.loads(answer)["nodes"]] == [extender]


async def test_user_without_permission_gets_name_of_required_role(installation, extender):
    stranger = await installation.account("stranger")
    refused = installation.run(stranger, "inspect")
    assert refused.returncode == 1
    assert 'cannot create resource "serviceaccounts/token"' in refused.stderr
    assert "for the Role accelkit-inspector-user in namespace accelkit" in refused.stderr
    token = await installation.token("accelkit-inspector", NAMESPACE, AUDIENCE)
    with pytest.raises(ApiError) as raised:
        await read(installation, token, "/inspect", kubeconfig=stranger)
    assert raised.value.forbidden


async def test_request_without_valid_token_is_refused(installation, extender):
    status, sentence = await read(installation, "", "/inspect")
    assert status == 401
    assert sentence.startswith("this port requires a token; send a token for the audience accelkit.io/inspect")
    assert (await read(installation, "nonsense", "/inspect"))[0] == 401
    # What pods have, and what the API server itself takes.
    common = await installation.token("accelkit-inspector", NAMESPACE)
    assert (await read(installation, common, "/inspect"))[0] == 401
    other = await installation.token("accelkit-inspector", NAMESPACE, "vault")
    assert (await read(installation, other, "/inspect"))[0] == 401
    powerless = await installation.token("default", NAMESPACE, AUDIENCE)
    status, sentence = await read(installation, powerless, "/inspect")
    assert status == 403
    assert sentence.startswith(f"system:serviceaccount:{NAMESPACE}:default may not get services/proxy of https:")


async def test_direct_request_to_read_port_requires_token(installation, extender):
    token = await installation.token("accelkit-inspector", NAMESPACE, AUDIENCE)
    for path in ("/inspect", f"/inspect/{extender}", "/version"):
        assert (await read_directly(installation, "GET", path))[0] == 401
        assert (await read_directly(installation, "GET", path, Authorization=f"Bearer {token}"))[0] == 200
    status, text = await read_directly(installation, "HEAD", "/inspect", Authorization=f"Bearer {token}")
    assert (status, text) == (200, "")


async def test_read_port_does_not_serve_scheduler_verbs(installation, extender):
    token = await installation.token("accelkit-inspector", NAMESPACE, AUDIENCE)
    for path in ("/filter", "/prioritize", "/bind", "/preempt", "/gcushare-scheduler/bind"):
        for method, status in (("POST", 405), ("GET", 404)):
            assert (await read_directly(installation, method, path, Authorization=f"Bearer {token}"))[0] == status
    async with installation.api() as api:
        with pytest.raises(ApiError) as raised:
            await api.post(f"{PROXY}/bind", {})
    assert (raised.value.status, raised.value.reason) == (405, "")


async def test_inspector_account_has_no_other_permissions(installation, extender):
    inspector = await installation.impersonate("accelkit-inspector", NAMESPACE)
    async with installation.api(inspector) as api:
        for path in (f"{CORE}/secrets/accelkit-ca", f"{CORE}/services", "/api/v1/nodes"):
            with pytest.raises(ApiError) as raised:
                await api.get(path)
            assert raised.value.forbidden
        # The port of the verbs, even for reading.
        with pytest.raises(ApiError) as raised:
            await api.get(f"{CORE}/services/https:accelkit-extender:https/proxy/inspect")
        assert raised.value.forbidden


async def issue_anew(installation, monkeypatch, name, days):
    """Let the certificate in a Secret end in so many days."""
    stored = await installation.read_secret("accelkit-ca")
    authority = StoredAuthority(KeyPair(stored["tls.crt"], stored["tls.key"]))
    monkeypatch.setattr(issuing, "LEAF_LIFETIME", timedelta(days=days))
    names = (f"accelkit-extender.{NAMESPACE}.svc",)
    leaf = authority.issue_server("accelkit-extender", names) if name == SERVER else authority.issue_client("c")
    data = {"tls.crt": leaf.certificate, "tls.key": leaf.key}
    async with installation.api() as api:
        await api.patch(
            f"{CORE}/secrets/{name}", {"data": {key: base64.b64encode(value).decode() for key, value in data.items()}}
        )


async def renew(installation):
    """Run what the CronJob runs, as its ServiceAccount, with what its pod mounts."""
    async with installation.api() as api:
        path = f"/apis/batch/v1/namespaces/{NAMESPACE}/cronjobs/accelkit-certificates"
        pod = json.loads(await api.get(path))["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    authority = installation.folder / "authority"
    authority.mkdir(exist_ok=True)
    for name, content in (await installation.read_secret("accelkit-ca")).items():
        (authority / name).write_bytes(content)
    await installation.write_certificates("accelkit-ca", CLIENT)
    (installation.folder / "certificates" / f"{SERVER}.crt").unlink(missing_ok=True)
    account = await installation.impersonate(pod["serviceAccountName"], NAMESPACE)
    return installation.run(account, *map(installation.place, pod["containers"][0]["args"]))


async def test_expiring_certificate_is_renewed_or_reported(installation, monkeypatch):
    await issue_anew(installation, monkeypatch, SERVER, 32)
    await issue_anew(installation, monkeypatch, CLIENT, 10)
    looked = installation.play(certificates="check", check=False)
    assert looked.returncode != 0
    assert f"{CLIENT} is valid until " in looked.stdout
    # It is renewed in time, before anybody complains.
    assert f"{SERVER} is valid until " not in looked.stdout
    before = await installation.read_secret(SERVER)
    done = await renew(installation)
    assert done.returncode == 0, done.stderr
    after = await installation.read_secret(SERVER)
    assert find_end(after["tls.crt"]) > datetime.now(UTC) + timedelta(days=360)
    assert after["ca.crt"] == before["ca.crt"]
    async with installation.api() as api:
        events = json.loads(await api.get(f"{CORE}/events"))["items"]
    told = [each for each in events if each["reason"] == "CertificateEnds"]
    assert [each["involvedObject"]["name"] for each in told] == [CLIENT]
    assert "run site.yml" in told[0]["message"]
    # What the sentence says to run.
    installation.play(certificates="apply")
    assert " changed=0 " in installation.play(certificates="apply", extender="apply").stdout
    installation.play(certificates="check")
    assert find_end((await installation.read_secret(CLIENT))["tls.crt"]) > datetime.now(UTC) + timedelta(days=360)


async def test_renewal_and_extender_accounts_cannot_read_ca_key(installation):
    for account in ("accelkit-certificates", "accelkit-extender"):
        async with installation.api(await installation.impersonate(account, NAMESPACE)) as api:
            for path in (f"{CORE}/secrets/accelkit-ca", f"{CORE}/secrets/{CLIENT}", f"{CORE}/secrets"):
                with pytest.raises(ApiError) as raised:
                    await api.get(path)
                assert raised.value.forbidden


async def test_certificate_expiry_is_exported_as_metric(installation, extender):
    url = f"http://127.0.0.1:{installation.probe_port}/metrics"
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session, session.get(url) as response:
        lines = (await response.text()).splitlines()
    for name in ("accelkit-ca", SERVER, CLIENT):
        end = find_end((await installation.read_secret(name))["tls.crt"]).timestamp()
        (line,) = [
            each
            for each in lines
            if each.startswith(f'accelkit_certificate_expiry_timestamp_seconds{{certificate="{name}"}}')
        ]
        assert float(line.split()[1]) == end
