"""Draws pods, nodes and ConfigMaps as a hostile user, or a node that went mad, can make them.

What the API server itself sees to is kept: names and UIDs are proper, a UID's containers and its node never change.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from fuzzing.values import GIB, LEAVES, NUMBERS, TEXTS, Json, Values

from accelkit.model.assignment import MOVING
from accelkit.model.keys import ASSIGNMENT_ANNOTATION, CORDON_KEY, INVENTORY_ANNOTATION, REQUEST_ANNOTATION
from accelkit.vendors.dialect import Dialect, GroupNames
from accelkit.vendors.dialects import list_dialect_names, load_dialect

CARDS: Final = tuple(f"GPU-{number}" for number in range(8))
NODES: Final = tuple(f"n{number}" for number in range(6))
FORMER_UNITS: Final = (GIB, 10**9, 2**20)
# 2026-01-01, in Unix seconds.
_THEN: Final = 1767225600
TIMES: Final = tuple(f"2026-01-01T00:00:{second:02}Z" for second in range(60))
_DIALECTS: Final = tuple(load_dialect(name) for name in list_dialect_names())
# Keys that other parts of a cluster give a meaning.
_OTHER_KEYS: Final = (
    *("kubernetes.io/config.hash", "kubernetes.io/config.mirror", "scheduler.framework.gpushare.allocation"),
    *("hami.io/vgpu-devices-allocated", "gas-container-tiles", INVENTORY_ANNOTATION, CORDON_KEY),
)
_NO_TIMES: Final = ("", "soon", "2026-13-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-01-01T00:00:00+99:99", "²")
_PHASES: Final = ("", "Pending", "Running", "Running", "Running", "Unknown", "Succeeded", "Failed")


class Objects:
    """Draws objects of a cluster that speaks one dialect.

    Args:
        values: draws what is in them.
        dialect: whose resources most pods ask for.
    """

    def __init__(self, values: Values, dialect: Dialect) -> None:
        self.values = values
        self.dialect = dialect
        self._made = self._changes = 0

    def pod(self, node: str) -> dict[str, Any]:
        """Return a new pod, bound where a node is named."""
        values = self.values
        self._made += 1
        containers = [self._container(f"c{number}") for number in range(1 + int(values.rng.random() ** 3 * 5))]
        init = [self._container(f"i{number}") for number in range(int(values.rng.random() ** 4 * 5))]
        for each in init:
            if values.chance(0.4):
                each["restartPolicy"] = values.one(("Always", "Never", "", None))
        if values.chance(0.002):
            containers = [self._container(f"c{number}") for number in range(20 + int(values.rng.random() * 120))]
        pod: dict[str, Any] = {
            "metadata": {"name": f"p{self._made}", "namespace": "d", "uid": f"uid-{self._made}"},
            "spec": {"containers": containers, "initContainers": init},
            "status": {},
        }
        if node:
            pod["spec"]["nodeName"] = node
        self.change_pod(pod)
        return pod

    def change_pod(self, pod: dict[str, Any]) -> None:
        """Change what a user and a kubelet may change of a pod."""
        values, metadata = self.values, pod["metadata"]
        # It grows with each change, as an API server's does.
        self._changes += 1
        metadata["resourceVersion"] = str(self._changes)
        metadata["creationTimestamp"] = values.one(TIMES) if values.chance(0.9) else values.one((None, "", "soon"))
        metadata["annotations"] = self._annotations(pod)
        if values.chance(0.1):
            metadata["labels"] = {values.one(TEXTS): values.text()}
        status: dict[str, Json] = {"phase": values.one(_PHASES)}
        if values.chance(0.5):
            status["startTime"] = values.one(TIMES) if not values.hostile(0.05) else values.one(_NO_TIMES)
        if values.chance(0.2):
            reason = values.one(("Unschedulable", "SchedulerError", "SchedulingGated", None))
            status["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": reason}]
        pod["status"] = status

    def node(self, name: str) -> dict[str, Any]:
        """Return a node as it may be now."""
        values, annotations, labels = self.values, dict[str, Json](), dict[str, Json]()
        if values.chance(0.9):
            honest = self.inventory()
            annotations[INVENTORY_ANNOTATION] = values.document(honest) if values.hostile(0.2) else json.dumps(honest)
        if values.chance(0.2):
            annotations[CORDON_KEY] = self._card_words(",")
        if values.chance(0.2):
            labels[CORDON_KEY] = self._card_words(".")
        if values.chance(0.2):
            word = values.one(("card0", "card1", "²", "", "card" + "9" * 5000))
            labels[f"telemetry.aware.scheduling.p/gas-disable-{word}"] = values.one(("true", "PCI_GROUP", ""))
        metadata = {"name": name, "uid": f"uid-{name}", "annotations": annotations, "labels": labels}
        return {"metadata": metadata, "status": {"capacity": {"cpu": "1"}, "allocatable": None}}

    def inventory(self) -> dict[str, Json]:
        """Return an inventory as an agent could publish it, as JSON values."""
        values = self.values
        ids = values.some(CARDS, 8) if values.chance(0.02) else list(CARDS[: int(values.rng.random() * 9)])
        most = 128 if values.chance(0.002) else 8
        if most > len(CARDS):
            ids = [f"GPU-{number}" for number in range(most)]
        return {
            "version": 1,
            "unit_bytes": values.one((GIB,) * 8 + (10**9, 2**20)),
            "cards": [self._card(card, place) for place, card in enumerate(ids)],
            **({"problem": values.text(), "next_unit_bytes": values.one((0, GIB, -1))} if values.chance(0.1) else {}),
            **({"former_units": self._former_units()} if values.chance(0.2) else {}),
            **({"uncounted": [self._share() for _ in range(2)]} if values.hostile(0.1) else {}),
            **({"topology": self._topology(len(ids))} if values.chance(0.4) else {}),
        }

    def _topology(self, cards: int) -> list[Json]:
        values = self.values
        if values.chance(0.2):
            return values.some(("X", "DX", "??"), 4)
        return ["".join(values.one("DDWSSMHN?Cz") for _ in range(cards)) for _ in range(cards)]

    def _former_units(self) -> list[dict[str, Json]]:
        values = self.values
        return [
            {"unit_bytes": values.one((*FORMER_UNITS, 0)), "until": values.one((_THEN, _THEN + 30, -1, 2**63))}
            for _ in range(int(values.rng.random() * 12))
        ]

    def config_map(self, node: str) -> dict[str, Any]:
        """Return a list of the bad cards of a node, as another system keeps it, or some other ConfigMap."""
        values = self.values
        name = values.one((f"unhealthy-gpu-{node}", f"unhealthy-gpu-{node}", "unhealthy-gpu-", "other"))
        data = {"gpus": self._card_words(",")} if values.chance(0.8) else values.one((None, {}, {"gpus": ""}))
        return {"metadata": {"name": name, "namespace": "kube-system"}, "data": data}

    def assignment(self, containers: Sequence[str]) -> dict[str, Json]:
        """Return an assignment: for ghosts, on cards nobody has, of amounts nobody asked for; or an honest one."""
        values = self.values
        names = [*containers, *values.some(("ghost", MOVING, "", "c0", "i0", "\x00"), 2)]
        return {
            "version": 1,
            "containers": {name: [self._share() for _ in range(int(values.rng.random() * 3))] for name in names},
            **({"broken": values.some(TEXTS, 2)} if values.chance(0.1) else {}),
        }

    def _share(self) -> dict[str, Json]:
        values = self.values
        memory = values.one((GIB, 4 * GIB, 16 * GIB, 0, 1, 15, 2**63 - 1, int(values.rng.random() * 17) * GIB))
        share: dict[str, Json] = {"card": values.one((*CARDS, "GPU-99", "", "x" * 200)), "memory_bytes": memory}
        if values.chance(0.3):
            share["compute"] = values.one((0, 1, 500, 1000, 1001, -1))
        if values.chance(0.3):
            share["whole"] = values.one((True, False))
        return share

    def _card(self, card: str, place: int) -> dict[str, Json]:
        values = self.values
        found: dict[str, Json] = {
            "id": card,
            "vendor": "v",
            "model": values.one(("m", "m", "o", "")),
            "memory_bytes": values.one((16 * GIB, 16 * GIB, 16 * GIB, 15 * GIB + 7, None, 0)),
            "index": place,
        }
        if values.chance(0.3):
            found["minor"] = values.one((place, 7 - place, None))
        if values.chance(0.1):
            found["reserved_bytes"] = values.one((0, GIB, 17 * GIB, 2**63 - 1))
        if values.chance(0.01):
            found["minor"] = values.one((-1, 2**63, place + 1))
        if values.chance(0.3):
            found["numa"] = values.one((0, 1, -1, None))
        if values.chance(0.2):
            found["links"] = [
                {
                    "to": values.one((*CARDS, "nowhere", card)),
                    "kind": values.one(("NVLink", "", "x")),
                    "count": values.one((1, 2, 0, -1, 2**63)),
                }
                for _ in range(int(values.rng.random() * 4))
            ]
        if values.chance(0.2):
            found["health"] = values.one(("healthy", "unhealthy", "unknown"))
        return found

    def _container(self, name: str) -> dict[str, Any]:
        return {"name": name, "resources": {"limits": self._limits()}}

    def _limits(self) -> Json:
        values = self.values
        if values.chance(0.05):
            return values.one((None, {}, {"cpu": "1"}))
        dialect = self.dialect if values.chance(0.85) else values.one(_DIALECTS)
        names = dialect.resources
        limits: dict[str, Json] = {"cpu": "100m"}
        if names.memory:
            # Both kinds in one container are a mistake that must be refused, so they are rare.
            wanted = values.one(([names.memory], [names.memory], [names.memory], [names.cards]))
            if values.hostile(0.05):
                wanted = [names.memory, names.cards]
            limits.update({name: values.quantity() for name in wanted})
        elif names.slices:
            limits[names.slices] = values.quantity()
        else:
            limits[values.one(names.counts)] = values.quantity()
            limits.update({name: values.quantity() for name in (names.bytes, names.compute) if values.chance(0.4)})
        if values.hostile(0.1):
            other = values.one(_DIALECTS).resources
            limits[values.one(other.requestable)] = values.quantity()
        return limits

    def _annotations(self, pod: dict[str, Any]) -> dict[str, str] | None:
        values = self.values
        if not values.hostile(0.7):
            return values.one((None, {}))
        containers = [each["name"] for each in (*pod["spec"]["initContainers"], *pod["spec"]["containers"])]
        found = dict[str, str]()
        if values.chance(0.5):
            found[ASSIGNMENT_ANNOTATION] = values.document(self.assignment(containers))
        if values.chance(0.2):
            found[REQUEST_ANNOTATION] = values.document(self._request(containers))
        if values.chance(0.5):
            found.update(self._foreign(self.dialect if values.chance(0.8) else values.one(_DIALECTS), containers))
        if values.chance(0.1):
            found[values.one(_OTHER_KEYS)] = values.text()
        return found

    def _foreign(self, dialect: Dialect, containers: Sequence[str]) -> dict[str, str]:
        """Return what another system's scheduler writes, or somebody in its name."""
        values, found = self.values, dict[str, str]()
        for key in dialect.annotations.keys if dialect.annotations else ():
            if values.chance(0.8):
                found[key] = values.number_text() if values.chance(0.7) else values.text()
        if dialect.pod_rules is not None:
            rules = dialect.pod_rules
            if values.chance(0.8) and dialect.annotations is not None:
                lists = (",".join(self._card_name() for _ in range(int(values.rng.random() * 3))) for _ in containers)
                found[dialect.annotations.keys[0]] = "|".join(lists)
            for key in (rules.allow, rules.deny):
                if values.chance(0.2):
                    found[key] = self._card_words(",")
            if values.chance(0.2):
                found[rules.same_card] = ",".join(values.some((*containers, "ghost", ""), 3))
        if dialect.groups is not None and values.chance(0.6):
            found[dialect.groups.annotation] = values.document(self._groups(dialect.groups, containers))
        return found

    def _groups(self, names: GroupNames, containers: Sequence[str]) -> dict[str, Json]:
        values = self.values

        def container() -> dict[str, Json]:
            found: dict[str, Json] = {}
            for card in "0123"[: int(values.rng.random() * 5)]:
                outer, inner = (
                    values.one(("", "", f"{word}/A/", f"{word}/B/")) for word in (names.socket, names.switch)
                )
                name = f"{values.one(names.prefixes)}{outer}{inner}{names.card}/{card}"
                found[f"{name}/cards"] = 1 if not values.hostile(0.1) else values.one((0, 2, -1, 2**63))
                if values.chance(0.3):
                    found[f"{name}/memory"] = values.one((GIB, 16 * GIB, 17 * GIB, 0))
            if values.hostile(0.1):
                found[values.one((*TEXTS, f"{names.prefixes[0]}odd/0/cards", *names.counts))] = 2
            return {"requests": found}

        said = {names.topology: values.one((0, 1, 2))} if values.chance(0.2) else {}
        return {
            "requests": said,
            "runningcontainer": {name: container() for name in values.some((*containers, "ghost"), 3)},
            **({"initcontainer": {name: container() for name in containers[:1]}} if values.chance(0.3) else {}),
        }

    def _request(self, containers: Sequence[str]) -> dict[str, Json]:
        values = self.values
        entry: dict[str, Json] = {}
        for key, choices in (
            ("split", (1, 2, 3, 8, 0, -1, 129, 2**63)),
            ("compute", (0, 1, 500, 1000, 1001, -1)),
            ("model", ("m", "none", "")),
            ("same_card_as", (*containers, "ghost")),
            ("link", ("any", "NVLink", "x")),
            ("numa", ("single", "", "double")),
            ("policy", ("spread", "binpack", "topology", "worst")),
            ("min_memory", ("16Gi", 1, 0, -1, "1e30", "x", 2**70)),
            ("polcy", LEAVES),
        ):
            if values.chance(0.2):
                entry[key] = values.one(choices)
        return dict.fromkeys(values.some((*containers, "ghost"), 3), entry)

    def _card_words(self, separator: str) -> str:
        words = (self.values.one((*CARDS, "all", self._card_name(), *NUMBERS)) for _ in range(3))
        return self.values.text() if self.values.chance(0.1) else separator.join(words)

    def _card_name(self) -> str:
        return f"card{self.values.number_text()}"
