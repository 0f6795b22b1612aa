"""Our entry in the `extenders:` of a KubeSchedulerConfiguration, put in and taken out of its text.

The text is edited at the lines of that entry alone, found by the positions of the parsed nodes, so that every other
byte stays: comments, order, quotes, indentation. The result is parsed again and compared; where lines cannot be edited
(flow style, say), the document is written anew by ruamel.yaml, which keeps comments and order.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from accelkit.controlplane.splice import Splice
from accelkit.errors import ConfigurationError

KIND: Final = "KubeSchedulerConfiguration"
GROUP: Final = "kubescheduler.config.k8s.io/"
OWN_RESOURCES: Final = ("accelkit.io/memory", "accelkit.io/cards")
_OWN_PREFIX: Final = "accelkit.io/"


@dataclass(frozen=True, kw_only=True)
class Extender:
    """How kube-scheduler calls our extender.

    Attributes:
        url_prefix: where it listens, as `http://127.0.0.1:32766`.
        weight: of its scores beside those of the scheduler's own plugins.
        http_timeout: for one call, as a Go duration.
        enable_https: whether the scheduler uses TLS; its credentials then stand in tls_config.
        tls_config: `insecure`, `certFile`, `keyFile`, `caFile`, `serverName`… as kube-scheduler names them.
        node_cache_capable: whether the scheduler sends node names only.
        ignorable: whether pods are scheduled without the extender when it does not answer.
        managed_resources: a pod is sent to the extender if it asks for one of these.
    """

    url_prefix: str
    weight: int = 1
    http_timeout: str = "10s"
    enable_https: bool = False
    tls_config: dict[str, Any] | None = None
    node_cache_capable: bool = True
    ignorable: bool = False
    managed_resources: tuple[str, ...] = OWN_RESOURCES

    def entry(self) -> dict[str, Any]:
        """Return the entry as kube-scheduler reads it."""
        entry: dict[str, Any] = {
            "urlPrefix": self.url_prefix,
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "bindVerb": "bind",
            "weight": self.weight,
            "enableHTTPS": self.enable_https,
            "nodeCacheCapable": self.node_cache_capable,
            "ignorable": self.ignorable,
            "httpTimeout": self.http_timeout,
            "managedResources": [{"name": name, "ignoredByScheduler": False} for name in self.managed_resources],
        }
        if self.tls_config:
            entry["tlsConfig"] = self.tls_config
        return entry


def with_extender(text: str, extender: Extender) -> str:
    """Return the configuration with our entry added or brought up to date; unchanged where it is right already.

    Raises:
        ConfigurationError: no KubeSchedulerConfiguration, or another extender binds already.
    """
    entries = _entries(_document(text))
    ours = _ours(entries, extender.url_prefix)
    for index, entry in enumerate(entries):
        if index not in ours and entry.get("bindVerb"):
            raise ConfigurationError(
                f"the extender {entry.get('urlPrefix')} binds pods already, and kube-scheduler accepts one such only",
                next_step="take its entry, or its bindVerb, out of the configuration first",
            )
    wanted = extender.entry()
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
    return [index for index, entry in enumerate(entries) if _is_ours(entry, url_prefix)]


def _is_ours(entry: dict[str, Any], url_prefix: str) -> bool:
    if url_prefix and str(entry.get("urlPrefix", "")).rstrip("/") == url_prefix.rstrip("/"):
        return True
    managed = entry.get("managedResources") or ()
    return any(str(each.get("name", "")).startswith(_OWN_PREFIX) for each in managed if isinstance(each, dict))


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
