"""Our entry in the `extenders:` of a KubeSchedulerConfiguration, put in and taken out of its text.

The text is edited at the lines of that entry alone, found by the positions of the parsed nodes, so that every other
byte stays: comments, order, quotes, indentation. The result is parsed again and compared; where lines cannot be edited
(flow style, say), the document is written anew by ruamel.yaml, which keeps comments and order.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.extender_entry import OWN_RESOURCES, Extender, check_binds_alone, is_ours
from accelkit.scheduler.configuration.splice import Splice

__all__ = [
    "OWN_RESOURCES",
    "Extender",
    "api_version_of",
    "has_extender",
    "new_configuration",
    "with_extender",
    "without_extender",
]

KIND: Final = "KubeSchedulerConfiguration"
GROUP: Final = "kubescheduler.config.k8s.io/"


def new_configuration(api_version: str, fields: dict[str, Any], extender: Extender) -> str:
    """Return a configuration that says `fields` and our entry.

    Args:
        api_version: without its group.
        fields: of a KubeSchedulerConfiguration of that version.
        extender: the entry.
    """
    yaml = YAML()
    yaml.width = 4096
    stream = io.StringIO()
    yaml.dump({"apiVersion": GROUP + api_version, "kind": KIND, **fields}, stream)
    return with_extender(stream.getvalue(), extender)


def with_extender(text: str, extender: Extender) -> str:
    """Return the configuration with our entry added or brought up to date; unchanged where it is right already.

    Raises:
        ConfigurationError: no KubeSchedulerConfiguration, or another extender binds already.
    """
    document = _document(text)
    entries = _entries(document)
    ours = _ours(entries, extender.url_prefix)
    check_binds_alone(entry for index, entry in enumerate(entries) if index not in ours)
    legacy = document["apiVersion"] == GROUP + "v1alpha2"
    wanted = extender.legacy_entry() if legacy else extender.entry()
    if [entries[index] for index in ours] == [wanted]:
        return text
    place = ours[0] if ours else len(entries)
    after = [entry for index, entry in enumerate(entries) if index not in ours]
    after.insert(place, wanted)
    return _edited(text, after, lambda splice: splice.put(wanted, ours), lambda items: _put(items, wanted, ours))


def without_extender(text: str, url_prefix: str = "") -> str:
    """Return the configuration without our entry, recognised by our resources or by `url_prefix`.

    Raises:
        ConfigurationError: no KubeSchedulerConfiguration.
    """
    entries = _entries(_document(text))
    ours = _ours(entries, url_prefix)
    if not ours:
        return text
    after = [entry for index, entry in enumerate(entries) if index not in ours]
    return _edited(text, after, lambda splice: splice.take(ours), lambda items: _take(items, ours))


def api_version_of(text: str) -> str:
    """Return the apiVersion of a configuration.

    Raises:
        ConfigurationError: no KubeSchedulerConfiguration.
    """
    return str(_document(text)["apiVersion"])


def has_extender(text: str, url_prefix: str = "") -> bool:
    """Return whether our entry is in the configuration.

    Raises:
        ConfigurationError: no KubeSchedulerConfiguration.
    """
    return bool(_ours(_entries(_document(text)), url_prefix))


def _document(text: str) -> dict[str, Any]:
    try:
        document = YAML(typ="safe", pure=True).load(text)
    except YAMLError as exc:
        raise ConfigurationError(f"the scheduler configuration is not one YAML document: {exc}") from exc
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise ConfigurationError(
            f"the file holds no {KIND}", next_step="give the path that kube-scheduler has in its option --config"
        )
    if not str(document.get("apiVersion", "")).startswith(GROUP):
        raise ConfigurationError(f"apiVersion {document.get('apiVersion')!r} is none of {GROUP}*")
    return document


def _entries(document: dict[str, Any]) -> list[dict[str, Any]]:
    entries = document.get("extenders") or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigurationError("`extenders` of the scheduler configuration is not a list of mappings")
    return entries


def _ours(entries: Sequence[dict[str, Any]], url_prefix: str) -> list[int]:
    return [index for index, entry in enumerate(entries) if is_ours(entry, url_prefix)]


def _edited(
    text: str,
    entries: list[dict[str, Any]],
    by_lines: Callable[[Splice], str],
    by_document: Callable[[CommentedSeq], None],
) -> str:
    expected = {**_document(text), "extenders": entries}
    edits: tuple[Callable[[], str], ...] = (lambda: by_lines(Splice(text)), lambda: _rewritten(text, by_document))
    for edit in edits:
        try:
            result = edit()
            document = _document(result)
        except (ConfigurationError, ValueError):
            continue
        if {**document, "extenders": document.get("extenders") or []} == expected:
            return result
    raise ConfigurationError(
        "the scheduler configuration cannot be edited safely",
        next_step="write its `extenders` as a plain block list, or empty",
    )


def _rewritten(text: str, change: Callable[[CommentedSeq], None]) -> str:
    yaml = YAML()
    yaml.indent(mapping=2, sequence=2, offset=0)
    yaml.width = 4096
    yaml.preserve_quotes = True
    yaml.explicit_start = text.startswith("---")
    document: CommentedMap = yaml.load(text)
    items = document.get("extenders")
    if not isinstance(items, CommentedSeq):
        items = CommentedSeq()
        document["extenders"] = items
    change(items)
    if not items:
        del document["extenders"]
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


def _put(items: CommentedSeq, wanted: dict[str, Any], ours: Sequence[int]) -> None:
    _take(items, ours)
    items.insert(ours[0] if ours else len(items), wanted)


def _take(items: CommentedSeq, ours: Sequence[int]) -> None:
    for index in reversed(ours):
        del items[index]
