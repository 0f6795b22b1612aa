"""Sources of facts about a card, in the format of profiles: YAML such as `{from: file, path: unique_id}`."""

from __future__ import annotations

import msgspec


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A source of a fact, with its parameters.

    Attributes:
        name: the name of the card source (`from` in YAML), which node agents look up in a table.
        key: the key in the profile's `facts` file.
        path: the file or entry below the device's sysfs folder. If the path contains `*`, the first match by name is
            used.
        pattern: the format of the fact, with `{}` as the placeholder for the content of the file.
    """

    name: str = msgspec.field(name="from")
    key: str = ""
    path: str = ""
    pattern: str = "{}"
