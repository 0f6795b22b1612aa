"""Several extenders on one cluster: one binds, whichever ends or loses its way to the API server."""

import asyncio
import contextlib
import json
import signal
import ssl

import aiohttp
import msgspec
import pytest
from extender_process import GIB, Process, client_of, world_of
from proxy import Proxy
from support.waiting import DEADLINE, until

from accelkit.errors import ApiError
from accelkit.install.certificates.issuing import Authority
from accelkit.serving.tls import CLIENT_NAME

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.fixture
async def world(control_plane):
    async with world_of(control_plane.kubeconfig) as world:
        yield world
        try:
            await world.api.delete(f"{LEASES}/{world.prefix}")
        except ApiError as exc:
            if exc.reason != "NotFound":
                raise


def replica(world, folder, kubeconfig, name):
    return Process(folder, "--kubeconfig", str(kubeconfig), "--lease", f"default/{world.prefix}", "--identity", name)


async def holder(world):
    try:
        lease = msgspec.json.decode(await world.api.get(f"{LEASES}/{world.prefix}"))
    except ApiError:
        return ""
    return lease["spec"].get("holderIdentity", "")


async def held_by(world, name):
    await until(lambda: holder(world), accept=lambda found: found == name)


async def bind(clients, pod, node):
    """Ask as kube-scheduler does, again and again until the pod is bound; the last one's word on a full node counts."""
    meta = pod["metadata"]
    body = {"PodName": meta["name"], "PodNamespace": "default", "PodUID": meta["uid"], "Node": node}
    deadline = asyncio.get_running_loop().time() + DEADLINE
    while asyncio.get_running_loop().time() < deadline:
        for client in clients:
            try:
                # A leader that is stopped answers nothing; kube-scheduler gives it up after a while, too.
                status, answer = await client.ask("POST", "/bind", body, timeout=aiohttp.ClientTimeout(total=3))
            except (aiohttp.ClientError, TimeoutError):
                continue
            error = json.loads(answer).get("Error") if status == 200 else None
            if error == "" or (error and "insufficient" in error and client is clients[-1]):
                return error
        await asyncio.sleep(0.1)
    raise AssertionError("no replica has bound or refused the pod")


@pytest.mark.parametrize("way", ["SIGKILL", "SIGTERM", "SIGSTOP", "cut"])
async def test_concurrent_binds_fill_node_exactly_during_leader_change(world, control_plane, tmp_path, way):
    async with Proxy(control_plane.kubeconfig, tmp_path) as proxy:
        with replica(world, tmp_path, proxy.kubeconfig, "a") as first:
            async with client_of(first) as a:
                await held_by(world, "a")
                with replica(world, tmp_path, control_plane.kubeconfig, "b") as second:
                    async with client_of(second) as b:

                        async def names_the_leader():
                            status, answer = await b.ask("POST", "/bind", {})
                            assert status == 503
                            return json.loads(answer)["error"] == "this replica does not bind pods; a holds the Lease"

                        # It may not have read the Lease yet.
                        await until(names_the_leader)
                        node = await world.node(4, 80)
                        for client in (a, b):
                            await client.shows(node, lambda view: view["state"] == "shared")
                        pods = await world.pods(64, 16)
                        # Not all at once, so that some are left for the successor.
                        turns = asyncio.Semaphore(8)
                        binding = [asyncio.create_task(bind_in_turn(turns, (a, b), pod, node)) for pod in pods]
                        await until(lambda: some_done(binding))
                        if way == "cut":
                            proxy.close()
                        else:
                            first.signal(signal.Signals[way])
                        await held_by(world, "b")
                        # The former leader goes on amid the binds of the new one.
                        if way == "SIGSTOP":
                            first.signal(signal.SIGCONT)
                        elif way == "cut":
                            await proxy.start()
                        errors = await asyncio.gather(*binding)
                        assert await holder(world) == "b"
                        assert errors.count("") == 20
                        assert await world.charged(node) == {f"{node}-{card}": 80 for card in range(4)}
                        await b.shows(node, lambda view: view["totals"]["used_bytes"] == 320 * GIB)


@contextlib.asynccontextmanager
async def lead(world, control_plane, tmp_path):
    """Replica `a` behind a proxy, which leads, and replica `b`; yields the proxy, both, and a client of `a`."""
    async with Proxy(control_plane.kubeconfig, tmp_path) as proxy:
        with (
            replica(world, tmp_path, proxy.kubeconfig, "a") as first,
            replica(world, tmp_path, control_plane.kubeconfig, "b") as second,
        ):
            second.signal(signal.SIGSTOP)
            async with client_of(first) as a:
                await held_by(world, "a")
                second.signal(signal.SIGCONT)
                yield proxy, first, second, a


async def test_late_binding_of_former_leader_is_rejected(world, control_plane, tmp_path):
    """Its process may be stopped, or its bytes be on their way, for longer than anybody can wait."""
    async with lead(world, control_plane, tmp_path) as (proxy, first, second, a), client_of(second) as b:
        node = await world.node(1, 80)
        for client in (a, b):
            await client.shows(node, lambda view: view["state"] == "shared")
        late, next_one = await world.pod(80), await world.pod(80)
        proxy.held_part = f"/pods/{late['metadata']['name']}/binding"
        asking = asyncio.create_task(a.bind(late, node))
        async with asyncio.timeout(DEADLINE):
            await proxy.held.wait()
        first.signal(signal.SIGKILL)
        await held_by(world, "b")
        assert await bind((b,), next_one, node) == ""
        proxy.released.set()
        assert await bind((b,), late, node) != ""
        await asyncio.gather(asking, return_exceptions=True)

        async def answered():
            return proxy.answered

        assert b" 409 " in await until(answered)
        assert await world.charged(node) == {f"{node}-0": 80}


async def bind_in_turn(turns, clients, pod, node):
    async with turns:
        return await bind(clients, pod, node)


async def said_at(process, words):
    """When a process logged this, as its line says; the Lease may show it before the log does."""
    lines = await until(lambda: [each for each in process.log.read_text().splitlines() if each.endswith(words)])
    return lines[0].split()[0]


async def some_done(tasks):
    return any(task.done() for task in tasks)


async def test_disconnected_leader_stops_before_next_leader_starts(world, control_plane, tmp_path):
    async with lead(world, control_plane, tmp_path) as (proxy, first, second, a):
        proxy.close()

        async def refuses():
            status, answer = await a.ask("POST", "/bind", {})
            return status == 503 and b"does not bind pods" in answer

        await until(refuses)
        await held_by(world, "b")
        assert await said_at(first, "stopped leading identity=a") <= await said_at(second, "started leading identity=b")


async def test_changed_certificates_are_loaded_and_ledger_is_kept(world, control_plane, tmp_path):
    authority = Authority("ours")

    def write(name):
        pair = authority.issue_server(name, ("127.0.0.1",))
        (tmp_path / "tls.crt").write_bytes(pair.certificate)
        (tmp_path / "tls.key").write_bytes(pair.key)

    write("one")
    client = authority.issue_client(CLIENT_NAME)
    for name, text in {"ca.crt": authority.certificate, "c.crt": client.certificate, "c.key": client.key}.items():
        (tmp_path / name).write_bytes(text)
    context = ssl.create_default_context(cafile=tmp_path / "ca.crt")
    context.load_cert_chain(tmp_path / "c.crt", tmp_path / "c.key")
    files = [("--tls-cert", "tls.crt"), ("--tls-key", "tls.key"), ("--client-ca", "ca.crt")]
    options = [word for option, name in files for word in (option, str(tmp_path / name))]
    kubeconfig = ("--kubeconfig", str(control_plane.kubeconfig))
    with Process(tmp_path, *kubeconfig, *options, plain=False) as process:
        async with client_of(process, context) as extender:
            node = await world.node(1, 80)
            await extender.shows(node, lambda view: view["state"] == "shared")
            assert await extender.bind(await world.pod(30), node) == ""

            async def served():
                _, writer = await asyncio.open_connection("127.0.0.1", process.port, ssl=context)
                subject = dict(pair[0] for pair in writer.get_extra_info("peercert")["subject"])
                writer.transport.abort()
                return subject["commonName"]

            assert await served() == "one"
            # Nonsense is not taken over; what comes after it is.
            (tmp_path / "tls.crt").write_text("nonsense")

            async def complained():
                return "the previous certificates stay in use" in process.log.read_text()

            await until(complained)
            assert await served() == "one"
            write("two")

            async def changed():
                try:
                    return await served() == "two"
                except ConnectionError:
                    # The listener is replaced with its certificates; whoever connects just then is turned away once.
                    return False

            await until(changed)
            assert await extender.used(node) == 30
            assert process.process.poll() is None
