"""A card that hangs shows no measures, and holds up neither the other cards nor a scrape."""

import asyncio
import threading

import pytest

from accelkit.model.card import Card
from accelkit.node.card_metrics import watch as module
from accelkit.node.card_metrics.reading import CardReading
from accelkit.node.card_metrics.watch import CardWatch, read_card
from accelkit.node.discovery import FoundCard
from accelkit.vendors.profiles import load_profiles


def find(name, vendor="amd", **facts):
    return FoundCard(Card(name, vendor, "m", 2**30, bdf="0000:03:00.0"), 0, 0, load_profiles()[vendor], **facts)


class Node:
    """Cards with a temperature each, of which some hang until they are let go."""

    def __init__(self):
        self.now, self.hang, self.go = 0.0, set(), threading.Event()
        self.temperature, self.asked = 40.0, []
        self.watch = CardWatch(self.read, clock=lambda: self.now)

    def read(self, found):
        self.asked.append(found.card.id)
        if found.card.id in self.hang:
            assert self.go.wait(60)
        return CardReading(temperature_celsius=self.temperature)

    def look(self, *names):
        self.watch.start_reads([find(name) for name in names])
        for name, thread in self.watch._threads.items():
            if name not in self.hang:
                thread.join(60)

    @property
    def shown(self):
        return {card: reading.temperature_celsius for card, reading in self.watch.list_current().items()}


@pytest.fixture
def node():
    node = Node()
    yield node
    node.go.set()
    for thread in node.watch._threads.values():
        thread.join(60)


def test_hanging_card_is_read_once_and_its_last_reading_expires(node, caplog):
    node.look("a", "b")
    assert node.shown == {"a": 40, "b": 40}
    node.hang.add("a")
    for node.now in (15.0, 30.0, 45.0, 61.0):
        node.look("a", "b")
    assert node.shown == {"b": 40}
    assert node.asked.count("a") == 2
    assert [each.message for each in caplog.records] == ["card a does not respond; its metrics are omitted"]


def test_late_reading_of_hanging_card_is_discarded(node):
    node.hang.add("a")
    node.look("a")
    node.now = 100.0
    node.go.set()
    node.watch._threads["a"].join(60)
    assert node.shown == {}
    node.look("a")
    node.watch._threads["a"].join(60)
    assert node.shown == {"a": 40}


async def test_cards_are_read_after_discovery_and_then_periodically(node, monkeypatch):
    monkeypatch.setattr(module, "_FIRST_SECONDS", 0.001)
    monkeypatch.setattr(module, "_INTERVAL_SECONDS", 0.001)
    known, twice = iter([[], [], [find("a")], [find("a")]]), asyncio.Event()

    def list_cards():
        cards = next(known, None)
        if cards is None:
            twice.set()
        return cards or []

    running = asyncio.create_task(node.watch.run(list_cards))
    async with asyncio.timeout(60):
        await twice.wait()
    running.cancel()
    assert set(node.asked) == {"a"}


def test_removed_card_is_discarded(node):
    node.look("a", "b")
    node.look("b")
    assert set(node.shown) == {"b"}


def test_read_error_of_one_card_does_not_affect_other_cards(caplog):
    def read(found):
        if found.card.id == "a":
            raise RuntimeError("the library is broken")
        return CardReading(power_watts=3)

    watch = CardWatch(read)
    for _ in range(2):
        watch.start_reads([find("a"), find("b")])
        for thread in watch._threads.values():
            thread.join(60)
    assert set(watch.list_current()) == {"b"}
    assert [each.message for each in caplog.records] == ["cannot read card a"]


def test_files_are_read_for_cards_without_nvidia_driver(tmp_path):
    (tmp_path / "gpu_busy_percent").write_text("8\n")
    found = find("a", driver="amdgpu", device=tmp_path)
    assert read_card(found, lambda: None) == CardReading(utilization_ratio=0.08)
    assert read_card(find("a", driver="amdgpu"), lambda: None) == CardReading()
    # Where NVIDIA's library is not there, nothing is: its driver shows nothing in files.
    assert read_card(find("a", "nvidia", driver="nvidia", device=tmp_path), lambda: None) == CardReading()
