"""Sources of facts of a card, as profiles name them: entries of YAML such as `{from: file, path: unique_id}`."""

from __future__ import annotations

import msgspec


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A source of a fact, and what it is told to look for.

    Attributes:
        name: the card source that is asked, `from` in YAML; node agents have a table of them.
        key: which key of the profile's `facts` file.
        path: which file or entry below the device's sysfs folder; may hold `*`, the first match by name counts.
        pattern: what is made of the content of a file.
    """

    name: str = msgspec.field(name="from")
    key: str = ""
    path: str = ""
    pattern: str = "{}"
