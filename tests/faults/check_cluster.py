"""Check the accounts of a cluster on which accelkit runs, at the end of a test.

    python tests/faults/check_cluster.py --kubeconfig FILE                 # a cluster made by kind
    python tests/faults/check_cluster.py --kubeconfig FILE --audit         # and whether `accelkit audit` agrees
    python tests/faults/check_cluster.py --sandbox FOLDER                  # a cluster of `accelkit sandbox up`

Kubelets are not asked: the script reads their checkpoints, on kind by `docker exec` into the nodes' containers. The
exit status is 1 where an invariant is violated for longer than it may be, 2 where something cannot be read.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.checker import Judge, Violation, check
from faults.clusters import Cluster, open_kind, open_sandbox
from faults.reading import Reader, UnreadableError

UNREADABLE_SECONDS = 60.0


def find_overdue(reader: Reader, *, exact_kubelets: bool = False) -> tuple[list[Violation], int]:
    """Look until everything holds twice in a row, or something does not for too long.

    Raises:
        UnreadableError: something could not be read for a minute.
    """
    judge, began, clean = Judge(), time.monotonic(), 0
    read_at = began
    while True:
        try:
            facts = reader.read()
        except UnreadableError:
            if time.monotonic() - read_at > UNREADABLE_SECONDS:
                raise
        else:
            read_at = time.monotonic()
            found = check(facts, exact_kubelets=exact_kubelets)
            if overdue := judge.observe(found, time.monotonic(), quiet_since=began):
                return overdue, len(facts.pods)
            clean = 0 if found else clean + 1
            if clean > 1:
                return [], len(facts.pods)
        time.sleep(1)


def add_cluster_options(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the options that name a cluster."""
    which = parser.add_mutually_exclusive_group(required=required)
    which.add_argument("--kubeconfig", type=Path, help="a cluster made by kind")
    which.add_argument("--sandbox", type=Path, help="folder of a cluster of `accelkit sandbox up`")
    parser.add_argument("--namespace", default="accelkit", help="where accelkit runs, on kind")
    parser.add_argument("--service", default="accelkit-extender", help="of the extender, on kind")


def open_cluster(options: argparse.Namespace) -> Cluster:
    """Return the cluster that options name.

    Raises:
        UnreadableError: there is none.
    """
    if options.kubeconfig is None:
        return open_sandbox(options.sandbox)
    return open_kind(options.kubeconfig, options.namespace, options.service)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_cluster_options(parser, required=True)
    parser.add_argument("--audit", action="store_true", help="fail too where `accelkit audit` says otherwise")
    options = parser.parse_args()
    try:
        cluster = open_cluster(options)
        overdue, pods = find_overdue(cluster.reader, exact_kubelets=cluster.exact_kubelets)
        findings = cluster.audit() if options.audit else []
    except UnreadableError as exc:
        print(f"cannot check the cluster: {exc}", file=sys.stderr)
        return 2
    for violation in overdue:
        print(f"VIOLATION {violation}")
    if options.audit and bool(findings) != bool(overdue):
        print(f"VIOLATION audit_disagrees: the audit finds {findings or 'nothing'}")
        return 1
    if not overdue:
        print(f"the accounts of {pods} pods with cards are right")
    return 1 if overdue else 0


if __name__ == "__main__":
    sys.exit(main())
