"""The verbs filter and prioritize: decisions over the ledger, no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, repeat
from operator import itemgetter

import msgspec
import numpy as np
import numpy.typing as npt

from accelkit.cluster.feed import LedgerFeed
from accelkit.errors import RequestError
from accelkit.extender.wire import Args, FilterResult, HostPriority, NamedObject, RawNodes
from accelkit.model.request import PodRequest
from accelkit.placement.ledger import Ledger
from accelkit.placement.misfit import Misfit, Reason
from accelkit.placement.policies import Policy, node_scores
from accelkit.placement.verdicts import Verdicts
from accelkit.vendors.dialects import Dialect

_UNSEEN = -1
_UNKNOWN = Misfit(Reason.UNKNOWN_NODE)
_node_name = msgspec.json.Decoder(NamedObject)


class BadArgsError(Exception):
    """The caller's arguments lack what the verb needs; the text says what."""


class Verbs:
    """Answers filter and prioritize from the ledger.

    Args:
        ledger: who holds what.
        feed: reads requests in the cluster's unit.
        dialects: whose sentences users read; a pod gets those of the dialect it speaks.
        policy: ranks cards and nodes where the pod does not say.
    """

    def __init__(self, ledger: Ledger, feed: LedgerFeed, dialects: Sequence[Dialect], policy: Policy) -> None:
        self._ledger = ledger
        self._feed = feed
        self._dialects = dialects
        self._verdicts = Verdicts(ledger)
        self.policy = policy

    def filter(self, args: Args) -> FilterResult:
        """Tell the nodes that fit from those that do not, and why.

        Raises:
            BadArgsError: no pod UID, or no nodes.
        """
        names, whole = _nodes(args)
        try:
            request = self._feed.request_of(args.Pod)
        except RequestError as exc:
            return _refuse_all(names, str(exc), whole)
        if request is None:
            return _answer(names, whole, [True] * len(names))
        codes, misfits = self._verdicts.judge(request, self._policy_of(request))
        # Row -1 stands for a node we have not seen and reads the last element.
        verdicts = np.append(codes, np.int16(_UNSEEN))[self._rows(names)]
        fits = (verdicts == 0).tolist()
        result = _answer(names, whole, fits)
        failed: dict[str, str] = {}
        never: dict[str, str] = {}
        dialect = self.dialect_of(args)
        for code in np.unique(verdicts).tolist():
            misfit = _UNKNOWN if code == _UNSEEN else misfits[code]
            if misfit is None:
                continue
            text = dialect.text(misfit)
            of_code = dict(zip(compress(names, (verdicts == code).tolist()), repeat(text), strict=False))
            failed.update(of_code)
            if not misfit.resolvable:
                never.update(of_code)
        # Schedulers before 1.21 read FailedNodes only; later ones let the other map win.
        result.FailedNodes = failed or None
        result.FailedAndUnresolvableNodes = never or None
        return result

    def prioritize(self, args: Args) -> list[HostPriority]:
        """Score nodes 0 to 10 by the policy; nodes we know nothing of, and pods without cards, score 0.

        Raises:
            BadArgsError: no pod UID, or no nodes.
        """
        names, _ = _nodes(args)
        try:
            request = self._feed.request_of(args.Pod)
        except RequestError:
            request = None
        if request is None:
            return [HostPriority(name, 0) for name in names]
        used = np.append(self._ledger.table.used_fraction[: self._ledger.table.rows], 1.0)
        scores = node_scores(self._policy_of(request), used[self._rows(names)])
        return list(map(HostPriority, names, scores.tolist()))

    def dialect_of(self, args: Args) -> Dialect:
        """Return the dialect whose resources the pod names."""
        limits = {
            name
            for container in (*args.Pod.spec.containers, *(args.Pod.spec.init_containers or ()))
            for name in container.resources.limits or ()
        }
        for dialect in self._dialects:
            if limits & {dialect.resources.memory, dialect.resources.cards}:
                return dialect
        return self._dialects[0]

    def _policy_of(self, request: PodRequest) -> Policy:
        return Policy(request.containers[0].policy or self.policy)

    def _rows(self, names: list[str]) -> npt.NDArray[np.int64]:
        rows = self._ledger.rows()
        if len(names) > 1:
            try:
                return np.array(itemgetter(*names)(rows), dtype=np.int64)
            except KeyError:
                pass
        return np.array([rows.get(name, -1) for name in names], dtype=np.int64)


def _nodes(args: Args) -> tuple[list[str], list[msgspec.Raw] | None]:
    if not args.Pod.metadata.uid:
        raise BadArgsError("Pod.metadata.uid is missing")
    if args.NodeNames is not None:
        return args.NodeNames, None
    if args.Nodes is None:
        raise BadArgsError("both Nodes and NodeNames are missing")
    items = args.Nodes.items or []
    try:
        return [_node_name.decode(item).metadata.name for item in items], items
    except msgspec.MsgspecError as exc:
        raise BadArgsError(f"Nodes.items: {exc}") from exc


def _answer(names: list[str], whole: list[msgspec.Raw] | None, fits: Sequence[bool]) -> FilterResult:
    if whole is None:
        return FilterResult(NodeNames=list(compress(names, fits)))
    return FilterResult(Nodes=RawNodes(list(compress(whole, fits))))


def _refuse_all(names: list[str], reason: str, whole: list[msgspec.Raw] | None) -> FilterResult:
    result = _answer(names, whole, [False] * len(names))
    result.FailedNodes = dict.fromkeys(names, reason)
    result.FailedAndUnresolvableNodes = dict.fromkeys(names, reason)
    return result
