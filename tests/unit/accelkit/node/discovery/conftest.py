from __future__ import annotations

from typing import ClassVar

import pytest

from accelkit.node.discovery import discover
from accelkit.sandbox.fake_host.host import FakeHost
from accelkit.vendors.profiles import load_profiles


@pytest.fixture
def host(tmp_path):
    return FakeHost(tmp_path)


@pytest.fixture
def find(tmp_path):
    """All cards of the host, by every profile."""
    return lambda nvml=None: discover(tmp_path, load_profiles().values(), nvml)


@pytest.fixture
def override(host):
    return lambda text: host.write("etc/accelkit/cards.yaml", text)


class FakeNvml:
    """The interface of the module pynvml over cards that are dictionaries."""

    nvmlMemory_v2 = 33554472  # noqa: N815 - the library's name
    FACTS: ClassVar = {
        "nvmlDeviceGetUUID": "uuid",
        "nvmlDeviceGetName": "name",
        "nvmlDeviceGetMinorNumber": "minor",
        "nvmlDeviceGetGpuInstanceId": "gi",
        "nvmlDeviceGetComputeInstanceId": "ci",
        "nvmlDeviceGetMaxMigDeviceCount": "most",
    }
    NVML_NVLINK_DEVICE_TYPE_SWITCH = 2

    class NVMLError(Exception):
        pass

    class Record:
        def __init__(self, **facts):
            self.__dict__.update(facts)

    def __init__(self, cards, *, old=False, driver=None):
        self.cards = cards
        self.old = old
        self.driver = {} if driver is None else {"version": driver}

    def __getattr__(self, function):
        if function not in self.FACTS:
            raise AttributeError(function)
        return lambda card: self._of(card, self.FACTS[function])

    def nvmlSystemGetDriverVersion(self):  # noqa: N802 - the library's name
        return self._of(self.driver, "version")

    def nvmlDeviceGetHandleByPciBusId(self, bdf):  # noqa: N802 - the library's name
        return self._of(self.cards, bdf)

    def nvmlDeviceGetMemoryInfo(self, card, version=None):  # noqa: N802 - the library's name
        if self.old and version is not None:
            raise self.NVMLError
        more = {} if version is None else {"reserved": self._of(card, "reserved")}
        return self.Record(total=self._of(card, "total"), **more)

    def nvmlDeviceGetMigMode(self, card):  # noqa: N802 - the library's name
        return [self._of(card, "mig"), 0]

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card, index):  # noqa: N802 - the library's name
        return self._of(card.get("instances", {}), index)

    def nvmlDeviceGetNvLinkState(self, card, link):  # noqa: N802 - the library's name
        return self._of(card.get("links", {}), link) is not None

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, card, link):  # noqa: N802 - the library's name
        return 2 if card["links"][link] == "switch" else 0

    def nvmlDeviceGetNvLinkRemotePciInfo(self, card, link):  # noqa: N802 - the library's name
        return self.Record(busId=card["links"][link].encode())

    def _of(self, facts, key):
        if key not in facts:
            raise self.NVMLError
        return facts[key]


@pytest.fixture
def fake_nvml():
    return FakeNvml
