import msgspec
import pytest
from aiohttp import web
from support.requests import build_inventory

from accelkit.inspection.inspection import view
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share
from accelkit.model.pod import PodRef
from accelkit.model.request import Kind

GIB = 2**30


@pytest.fixture
def inspection():
    """What an extender holds: two cards of a node, one of them given whole."""
    ledger = Ledger(unit_bytes=GIB)
    ledger.put_node("n", build_inventory("a", "b", memory=16 * GIB, unit_bytes=GIB))
    shares = {"c": (Share("a", 4 * GIB),), "w": (Share("b", 16 * GIB, whole=True),)}
    ledger.confirm(PodRef("d", "p", "u"), "n", Assignment(shares), [("c", Kind.APP), ("w", Kind.APP)])
    return view(ledger.list_nodes())


@pytest.fixture
def answer():
    """Let a server answer GETs of a path, which is written as it is sent, with a value as JSON or with bytes as is."""

    def answer(server, path, value, status=200):
        body = value if isinstance(value, bytes) else msgspec.json.encode(value)

        def respond(request):
            return web.Response(body=body, status=status) if request.rel_url.raw_path == path else None

        server.on("GET", ".*", respond)

    return answer
