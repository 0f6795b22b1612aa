"""The agent's loop with everything but processes: watches, registry, disk, reports."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agent_worlds import CARD, GIB, MOUNT
from fake_api.watches import WatchedApi
from private_sigstore import PrivateSigstore
from registries import misbehaviour
from registries.caches import cache_folder, publish, sign
from registries.hostile import HostileRegistry
from support.waiting import until

from accelkit.cacheagent import agent as module
from accelkit.cacheagent.agent import AgentOptions, CacheAgent
from accelkit.cacheagent.disk.store import Store
from accelkit.cacheagent.metrics import Metrics
from accelkit.cacheagent.preparation import Preparation
from accelkit.cacheagent.pull_secrets import read_logins
from accelkit.gkm import names
from accelkit.kernelcache.extraction.integrity import protection
from accelkit.kernelcache.extraction.integrity.protection import delete_tree
from accelkit.kernelcache.registry import RegistrySettings
from accelkit.kube.paths import NODES, PODS, build_collection_path
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION

KEY = PrivateSigstore.new().key()
CACHES = build_collection_path(names.API, "gkmcaches", "team")
REPORT = f"{build_collection_path(names.API, 'gkmcachenodes', 'team')}/n"
Json = dict[str, Any]


class Stand:
    """A node, its agent, and a registry with one signed image."""

    def __init__(self, registry: HostileRegistry, root: Path) -> None:
        self.api, self.registry, self.metrics = WatchedApi(), registry, Metrics()
        self.settings = RegistrySettings(plain_http=frozenset({registry.host}))
        self.options = AgentOptions(node="n", folder=root, registries=self.settings, recheck_seconds=0.05)
        self.store = Store(root)
        self.image = publish(registry.host, cache_folder(root.parent / "built"), "team/add")
        sign(registry.host, self.image, KEY, "team/add")
        cards = encode_inventory(Inventory(GIB, (CARD,)))
        node = {"metadata": {"name": "n", "uid": "n", "annotations": {INVENTORY_ANNOTATION: cards}}}
        self.api.store(NODES, {**node, "status": {"nodeInfo": {"architecture": "amd64"}}})
        signer = {"name": "ci", "key": {"data": KEY.key.public_pem.decode()}, "transparencyLog": "notRequired"}
        self.policy = {"images": [f"{registry.host}/**"], "signers": [signer]}
        self.api.store(names.SIGNER_POLICIES, {"metadata": {"name": "p", "uid": "p"}, "spec": self.policy})

    def ask(self, name: str = "add", namespace: str = "team", image: str = "team/add", **status: Any) -> None:
        verified = {"type": "Verified", "status": "True", "reason": "Verified"}
        told = {"resolvedDigest": self.image.digest, "mountPath": MOUNT, "delivery": "node", "conditions": [verified]}
        meta = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
        spec = {"image": f"{self.registry.host}/{image}:v1"}
        caches = build_collection_path(names.API, "gkmcaches", namespace)
        self.api.store(caches, {"metadata": meta, "spec": spec, "status": {**told, **status}})

    def condition(self, kind: str, name: str = "add", namespace: str = "team") -> Json:
        report = self.api.objects.get(REPORT.replace("/team/", f"/{namespace}/"), {})
        entries = report.get("status", {}).get("caches", {}).get(name, {})
        conditions = entries.get(self.image.digest, {}).get("conditions", ())
        return next((each for each in conditions if each["type"] == kind), {})

    async def until_ready(self, name: str = "add", namespace: str = "team") -> None:
        await until(lambda: self.condition("Ready", name, namespace).get("status") == "True")

    def mounted(self, key: str, namespace: str, digest: str = "") -> Path:
        """The path of a volume on this node."""
        return Path(names.build_volume_path(key, namespace, digest, MOUNT, self.store.root))

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
async def stand(hostile_registry: HostileRegistry, tmp_path: Path, monkeypatch) -> AsyncIterator[Stand]:
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.05)
    stand = await asyncio.to_thread(Stand, hostile_registry, tmp_path / "store")
    await stand.store.open()
    logins = read_logins(stand.api, stand.settings.credentials, "")
    async with Preparation(stand.store.root, stand.settings, logins) as preparation:
        agent = CacheAgent(stand.api, stand.options, stand.store, preparation, stand.metrics)
        tasks = [asyncio.create_task(loop) for loop in agent.list_loops()]
        yield stand
        assert agent.is_healthy()
        await agent.end_work()
        for task in tasks:
            task.cancel()
        assert {type(each) for each in await asyncio.gather(*tasks, return_exceptions=True)} == {asyncio.CancelledError}
    delete_tree(stand.store.root)


@pytest.fixture
async def served(stand) -> Stand:
    """The same, once the agent serves a cache."""
    stand.ask()
    await stand.until_ready()
    return stand


async def test_cache_is_extracted_linked_reported_and_counted(served):
    assert Path(names.build_link_path("team/add", served.store.root)).is_dir()
    assert served.count("accelkit_kernel_cache_extractions_total") == 1
    assert served.count("accelkit_kernel_caches_on_node", state="serve") == 1
    assert served.count("accelkit_kernel_cache_stored_bytes") > 0


async def test_entries_for_pods_are_deleted_with_their_cache(served):
    paths = [served.mounted("team/add", "team", digest) for digest in ("", served.image.digest)]
    assert all(path.is_dir() and path.is_symlink() for path in paths)
    assert {each.name for each in (served.store.root / "namespaces").iterdir()} == {"team"}
    served.api.objects.pop(f"{CACHES}/add")
    await until(lambda: not any(path.is_symlink() for path in paths))


@pytest.mark.parametrize(
    ("image", "status", "words"),
    [
        # The image of another tenant, to which the registry gives this cache no access.
        ("team/add", {}, "requires a user name and a password"),
        # Its own image, which does not have the digest.
        ("thief/add", {}, "requires a user name and a password for thief/add"),
        ("thief/public", {}, "thief/public"),
        # The image of another tenant, named only by the status.
        ("thief/public", {"resolvedImage": "team/add:v1"}, "the controller has no current verdict"),
    ],
)
async def test_forged_status_does_not_serve_digest_of_another_tenant(served, image, status, words):
    served.registry.on("*", "/v2/(team|thief)/add/.*", misbehaviour.basic_auth("reader", "secret"))
    asked = len(served.registry.requests)
    if status:
        status = {"resolvedImage": f"{served.registry.host}/{status['resolvedImage']}"}
    served.ask("mine", "thief", image, **status)

    await until(lambda: words in served.condition("Ready", "mine", "thief").get("message", ""))
    assert served.condition("Ready", "mine", "thief")["status"] == "False"
    assert (len(served.registry.requests) > asked) is not bool(status)
    assert not (served.store.root / "namespaces" / "thief").exists()
    assert served.condition("Ready")["status"] == "True"


async def test_a_tenant_with_access_to_the_image_gets_the_stored_files(served):
    served.ask("same", "other")
    await served.until_ready("same", "other")
    assert served.count("accelkit_kernel_cache_extractions_total") == 1
    assert served.mounted("other/same", "other", served.image.digest).is_dir()
    assert served.registry.received("GET", f"/v2/team/add/manifests/{served.image.digest}")
    # The registry is asked once for each tenant.
    asked = len(served.registry.requests)
    served.ask("again", "other")
    await served.until_ready("again", "other")
    assert len(served.registry.requests) == asked


async def test_links_are_moved_before_folders_are_deleted(served, monkeypatch):
    done = []
    collect, move_link = Store.collect, Store.move_link

    async def note_collect(store: Store, folder: str) -> bool:
        done.append("collect")
        return await collect(store, folder)

    def note_move(store: Store, link: str, target: str | None) -> None:
        done.append("move")
        move_link(store, link, target)

    monkeypatch.setattr(Store, "collect", note_collect)
    monkeypatch.setattr(Store, "move_link", note_move)
    # Its link goes, and so does its folder.
    served.api.objects.pop(f"{CACHES}/add")
    await until(lambda: not served.store.stored)
    assert done[:2] == ["move", "collect"]


async def test_changed_content_is_reported_and_extracted_again(stand, monkeypatch):
    def refuse(*_args, **_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    # As in a container without the capability, where the store can be written.
    monkeypatch.setattr(protection, "_set_immutable", refuse)
    stand.ask()
    await stand.until_ready()
    link = Path(names.build_link_path("team/add", stand.store.root))
    kept = {path.name: path.read_bytes() for path in link.rglob("*") if path.is_file()}
    (link / "evil.so").write_bytes(b"evil")
    await until(lambda: stand.count("accelkit_kernel_cache_extractions_total") == 2)
    await until(link.is_dir)
    await until(lambda: stand.condition("Degraded"))
    await stand.until_ready()
    assert {path.name: path.read_bytes() for path in link.rglob("*") if path.is_file()} == kept
    assert stand.count("accelkit_kernel_cache_content_changed_total") == 1
    assert stand.condition("Degraded")["reason"] == "ContentChanged"
    assert stand.condition("Degraded")["status"] == "True"


async def test_folder_that_cannot_be_deleted_blocks_no_other_work(stand, monkeypatch):
    real = Store.collect

    async def refuse(store: Store, folder: str) -> bool:
        if folder.startswith("sha256-" + "f" * 64):
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return await real(store, folder)

    monkeypatch.setattr(Store, "collect", refuse)
    odd = stand.store.root / f"sha256-{'f' * 64}"
    odd.mkdir()
    await stand.store.refresh()
    stand.ask()
    await stand.until_ready()
    assert odd.is_dir()


async def test_link_is_not_moved_while_ledger_cannot_be_written(stand, monkeypatch):
    def refuse(_store: Store) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    pod = {"metadata": {"name": "p", "namespace": "team", "uid": "p"}, "status": {"phase": "Running"}}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "add"}}
    stand.ask()
    await stand.until_ready()
    monkeypatch.setattr(Store, "write_ledger", refuse)
    stand.api.store(PODS, {**pod, "spec": {"nodeName": "n", "containers": [], "volumes": [volume]}})
    stand.ask("other")
    await until(lambda: stand.condition("Extracted", "other").get("status") == "True")
    assert stand.condition("Ready", "other")["reason"] == "Pending"
    monkeypatch.undo()
    await stand.until_ready("other")


async def test_lost_ledger_keeps_all_files_until_pods_end(served):
    pod = {"metadata": {"name": "p", "namespace": "team", "uid": "p"}, "status": {"phase": "Running"}}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "add"}}
    served.api.store(PODS, {**pod, "spec": {"nodeName": "n", "containers": [], "volumes": [volume]}})
    await until(lambda: served.store.ledger.uses.get("p"))
    served.store.ledger.lost = True
    await until(lambda: "" in served.store.ledger.uses.get("p", {}))
    served.api.objects.pop(f"{CACHES}/add")
    await until(lambda: REPORT not in served.api.objects)
    assert served.store.stored
    served.api.objects.pop(f"{build_collection_path('v1', 'pods', 'team')}/p")
    await until(lambda: not served.store.stored)
    await until(lambda: served.count("accelkit_kernel_cache_collected_total") == 1)


async def test_deleted_or_unsatisfied_policy_withdraws_digest(served):
    served.api.objects.pop(f"{names.SIGNER_POLICIES}/p")
    await until(lambda: served.condition("Ready").get("reason") == "NotCovered")
    assert not next((served.store.root / "claims").iterdir()).exists()
    served.api.store(names.SIGNER_POLICIES, {"metadata": {"name": "p", "uid": "p2"}, "spec": served.policy})
    await served.until_ready()
    other = PrivateSigstore.new().key().key.public_pem.decode()
    signer = {"name": "else", "key": {"data": other}, "transparencyLog": "notRequired"}
    served.api.store(
        names.SIGNER_POLICIES, {"metadata": {"name": "p", "uid": "p"}, "spec": {**served.policy, "signers": [signer]}}
    )
    await until(lambda: served.condition("Ready").get("reason") == "SignatureInvalid")
    assert not next((served.store.root / "claims").iterdir()).exists()


async def test_changed_policy_is_checked_with_stored_signatures(served):
    asked = len(served.registry.requests)
    served.registry.on("*", ".*", misbehaviour.failing(503))
    changed = {**served.policy, "verdictTtlSeconds": 3600}
    served.api.store(names.SIGNER_POLICIES, {"metadata": {"name": "p", "uid": "p"}, "spec": changed})
    await until(lambda: len(next(iter(served.store.stored.values())).satisfied) == 2)
    await until(lambda: served.condition("Ready") and not served.condition("Ready")["message"])
    assert len(served.registry.requests) == asked


async def test_changed_cards_change_compatibility(served):
    other = Card("card-0", "simulated", "sim", GIB, index=0, target="hip:gfx942")
    annotations = {INVENTORY_ANNOTATION: encode_inventory(Inventory(GIB, (other,)))}
    node = {"metadata": {"name": "n", "uid": "n", "annotations": annotations}, "status": {}}
    served.api.store(NODES, node)
    await until(lambda: served.condition("Compatible").get("reason") == "Incompatible")
    assert served.condition("Ready")["status"] == "False"
    assert not next((served.store.root / "claims").iterdir()).exists()


async def test_invalid_policy_keeps_served_cache_and_blocks_new_cache(served):
    served.api.store(names.SIGNER_POLICIES, {"metadata": {"name": "odd", "uid": "odd"}, "spec": {"images": 5}})
    await until(lambda: "signer policy odd is invalid" in served.condition("Ready")["message"])
    assert served.condition("Ready")["status"] == "True"
    served.ask("other")
    await until(lambda: served.condition("Ready", "other").get("reason") == "PolicyUnreadable")
