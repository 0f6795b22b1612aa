import msgspec
import pytest
from rich.console import Console
from support.requests import build_inventory, build_request

from accelkit.errors import InventoryError
from accelkit.inspection.inspection import view
from accelkit.inspection.table import build_inspection_table
from accelkit.ledger.holding import UnassignedPod
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card, Health
from accelkit.model.inventory import Inventory
from accelkit.model.pod import PodRef
from accelkit.model.request import Kind
from accelkit.placement.policies import Policy

GIB = 2**30
CARD = Card("a", "v", "m", 16 * GIB)


@pytest.fixture
def ledger():
    ledger = Ledger(unit_bytes=GIB)
    ledger.put_node("n", Inventory(GIB, (CARD,)))
    return ledger


def put(ledger, *cards):
    ledger.put_node("n", Inventory(GIB, cards))


def hold(ledger, name, card, memory=0, **more):
    share = Share(card, memory * GIB, **more)
    ledger.confirm(PodRef("d", name, name), "n", Assignment({"c": (share,)}), [("c", Kind.APP)])


def pieces(inspection):
    """What a terminal shows, piece by piece, each with its style."""
    return [(piece.text, str(piece.style)) for piece in Console(width=160).render(build_inspection_table(inspection))]


def lines(ledger):
    text = "".join(text for text, _ in pieces(view(ledger.list_nodes())))
    return [line.rstrip() for line in text.splitlines()]


def card_line(ledger):
    return lines(ledger)[1]


def style_of(ledger, text):
    """The style of the first piece with this text."""
    return next(style for piece, style in pieces(view(ledger.list_nodes())) if text in piece)


def test_cards_pods_and_totals_are_aligned_in_columns(ledger):
    put(ledger, CARD, Card("long", "v", "H100", None))
    hold(ledger, "p", "a", 8, compute=250)
    hold(ledger, "pod-with-a-long-name", "long", whole=True)
    ledger.reserve(PodRef("d", "r", "r"), "n", build_request(4 * GIB), Policy.BINPACK)
    ledger.put_node("o", build_inventory("x", memory=16 * GIB, unit_bytes=GIB))
    assert lines(ledger) == [
        "n  2 cards, 12 GiB of 16 GiB used",
        "  a     ██████████████████░░░░░░     12 GiB of 16 GiB    m  compute 25 %",
        "        └ d/p [c]                         8 GiB, compute 25 %",
        "        └ d/r [c]                         4 GiB  (reserved)",
        "  long  ████████████████████████  memory unknown         H100",
        "        └ d/pod-with-a-long-name [c]  whole card",
        "",
        "o  1 card, 0 of 16 GiB used",
        "  x  ░░░░░░░░░░░░░░░░░░░░░░░░          0 of 16 GiB    m",
        "",
        "2 nodes, 3 cards, 12 GiB of 32 GiB used, unit 1 GiB",
    ]


def test_links_of_a_multi_card_container_are_listed_below_the_cards(ledger):
    cards = [Card(name, "v", "m", 16 * GIB) for name in "abc"]
    ledger.put_node("n", Inventory(GIB, tuple(cards), topology=("XDS", "DXS", "SSX")))
    shares = tuple(Share(card, 16 * GIB, whole=True) for card in "abc")
    ledger.confirm(PodRef("d", "p", "p"), "n", Assignment({"c": shares}), [("c", Kind.APP)])
    assert lines(ledger)[7] == "  d/p [c] has 3 cards, 1 pair connected by a link, 2 pairs below the same PCI switch"
    ledger.put_node("n", None)
    assert "  d/p [c] has 3 cards, the links are unknown" in lines(ledger)


def test_pod_names_are_not_truncated_on_narrow_terminal(ledger):
    name = "p" * 63
    hold(ledger, name, "a", 8)
    console = Console(width=80, soft_wrap=True)
    with console.capture() as captured:
        console.print(build_inspection_table(view(ledger.list_nodes())))
    assert f"└ d/{name} [c]      8 GiB\n" in captured.get()


@pytest.mark.parametrize(
    ("memory", "gib", "filled", "style"),
    [
        (16, 0, 0, None),
        (16, 8, 12, "green"),
        (20, 17, 20, "green"),
        (16, 14, 21, "yellow"),
        (16, 16, 24, "yellow"),
        (16, 17, 24, "red"),
        # What is held in part looks neither empty nor full.
        (1000, 1, 1, "green"),
        (1000, 999, 23, "yellow"),
    ],
)
def test_usage_bar_has_length_and_color_of_usage(ledger, memory, gib, filled, style):
    put(ledger, Card("a", "v", "m", memory * GIB))
    if gib:
        hold(ledger, "p", "a", gib)
    assert card_line(ledger).split()[1] == "█" * filled + "░" * (24 - filled)
    if style:
        assert style_of(ledger, "█") == style
    if filled < 24:
        assert style_of(ledger, "░") == "bright_black"


def test_card_with_unknown_memory_is_full_if_assigned_as_whole_card(ledger):
    put(ledger, Card("a", "v", "m", None))
    assert card_line(ledger) == f"  a  {'░' * 24}  memory unknown         m"
    hold(ledger, "p", "a", whole=True)
    assert card_line(ledger) == f"  a  {'█' * 24}  memory unknown         m"


def test_compute_of_a_whole_card_is_not_printed(ledger):
    hold(ledger, "p", "a", 16, compute=1000, whole=True)
    assert "compute" not in "".join(lines(ledger))


def test_compute_is_printed_as_percentage(ledger):
    hold(ledger, "p", "a", 4, compute=125)
    hold(ledger, "q", "a", 4)
    assert [line.partition("compute")[2] for line in lines(ledger)[1:4]] == [" 12.5 %", " 12.5 %", ""]


@pytest.mark.parametrize(
    ("health", "reason", "mark", "style"),
    [
        (Health.UNHEALTHY, "XID 79", "  unhealthy: XID 79", "red"),
        (Health.UNHEALTHY, "", "  unhealthy", "red"),
        (Health.UNKNOWN, "", "  unknown", "yellow"),
        (Health.HEALTHY, "", "", None),
    ],
)
def test_unhealthy_card_is_marked_with_its_reason(ledger, health, reason, mark, style):
    put(ledger, msgspec.structs.replace(CARD, health=health, health_reason=reason))
    assert card_line(ledger) == f"  a  {'░' * 24}          0 of 16 GiB    m{mark}"
    if style:
        assert style_of(ledger, mark) == style


def test_cordoned_card_is_marked(ledger):
    put(ledger, msgspec.structs.replace(CARD, cordoned=True))
    assert card_line(ledger).endswith(" m  cordoned")
    assert style_of(ledger, "  cordoned") == "yellow"


def test_card_missing_from_inventory_is_marked(ledger):
    hold(ledger, "p", "lost", 4)
    assert " ".join(lines(ledger)[2].split()) == f"lost {'░' * 24} memory unknown unknown not in the inventory"
    assert style_of(ledger, "  not in the inventory") == "yellow"


def test_node_with_unknown_cards_prints_the_reason(ledger):
    ledger.put_node("n", InventoryError("garbled"))
    assert lines(ledger)[0] == "n  1 card, 0 of 16 GiB used  node's accelkit inventory is unknown: garbled"
    assert style_of(ledger, "garbled") == "bold yellow"


def test_node_without_cards_lists_pods_with_unknown_cards(ledger):
    ledger.put_node("n", None)
    ledger.confirm_unassigned(UnassignedPod(PodRef("d", "s", "s"), "n", build_request(4 * GIB), "it has none"))
    assert lines(ledger) == [
        "n  0 cards, 0 of 0 used  node has no accelkit inventory",
        "  ? d/s holds cards, but their IDs are unknown: it has none",
        "",
        "1 node, 0 cards, 0 of 0 used",
    ]
    assert style_of(ledger, "? d/s") == "yellow"


def test_names_and_totals_are_bold_and_details_are_dimmed(ledger):
    hold(ledger, "p", "a", 4)
    ledger.reserve(PodRef("d", "r", "r"), "n", build_request(4 * GIB), Policy.BINPACK)
    assert style_of(ledger, "n") == "bold cyan"
    assert style_of(ledger, "  1 card, ") == "bold default"
    assert style_of(ledger, " m") == "bright_black"
    assert style_of(ledger, "  (reserved)") == "bright_black"
    assert style_of(ledger, "1 node, ") == "bold"
