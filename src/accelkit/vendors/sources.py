"""Sources of facts of a card, as profiles name them: tagged entries of YAML such as `{from: file, path: unique_id}`."""

from __future__ import annotations

import msgspec


class FromFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="from", tag="facts"):
    """A key of the profile's `facts` file of `key: value` lines."""

    key: str


class FromFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="from", tag="file"):
    """The content of a file below the device's sysfs folder.

    Attributes:
        path: may hold `*`; the first match by name counts.
        pattern: what is made of the content.
    """

    path: str
    pattern: str = "{}"


class FromEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="from", tag="entry"):
    """The number at the end of the name of an entry below the device's sysfs folder, as of `drm/card*`."""

    path: str


class FromNvml(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="from", tag="nvml"):
    """NVIDIA's management library, where it loads."""


class FromDmem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="from", tag="dmem"):
    """The kernel's controller of device memory: knows memory only."""


class FromKfd(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="from", tag="kfd"):
    """The topology of AMD's compute driver: knows memory only."""


class FromTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="from", tag="table"):
    """The profile's own `models`: knows the kind of card, not this one."""


TextSource = FromNvml | FromFacts | FromFile | FromTable
NumberSource = FromNvml | FromFacts | FromEntry
MemorySource = FromNvml | FromFile | FromDmem | FromKfd | FromTable
