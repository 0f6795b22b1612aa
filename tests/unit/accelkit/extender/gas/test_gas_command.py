import msgspec
import pytest
from click.testing import CliRunner
from support.commands import record_options

from accelkit.extender.gas import command
from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.card_state import CardState, build_empty_states
from accelkit.placement.fit import place
from accelkit.sandbox.certificates import Authority
from accelkit.vendors.dialects import load_dialect

FOO = "gpu.intel.com/foo"
DECLINED = "set --cert, --key and --cacert, or --unsafe"


@pytest.fixture
def told(monkeypatch):
    return record_options(monkeypatch, command)


@pytest.fixture
def files(tmp_path):
    authority = Authority("extender")
    pair = authority.issue_server("gas", ("127.0.0.1",))
    found = {"cert": pair.certificate, "key": pair.key, "cacert": authority.certificate}
    for name, content in found.items():
        (tmp_path / name).write_bytes(content)
    return [f"-{name}={tmp_path / name}" for name in found]


def start(*flags):
    return CliRunner().invoke(command.gas_extender, flags)


def test_server_does_not_start_without_certificates_unless_unsafe_flag_is_set(told, files):
    for flags in ([], ["--unsafe=false"], files[:2], files[1:]):
        assert DECLINED in str(start(*flags).exception)
    assert told == []
    assert start("--unsafe").exit_code == 0
    assert (told[0].listen.port, told[0].listen.tls, told[0].wake) == (9001, None, True)


def test_client_certificate_names_can_be_configured(told, files):
    assert start(*files, "--port", "32000").exit_code == 0
    assert start(*files, "-clientName=gas-client").exit_code == 0
    assert [each.listen.port for each in told] == [32000, 9001]
    assert [sorted(each.listen.tls.client_names) for each in told] == [
        ["accelkit-kube-scheduler", "system:kube-scheduler"],
        ["gas-client"],
    ]


@pytest.mark.parametrize(
    ("flags", "unread"),
    [
        ([], {"gas-allow", "gas-deny"}),
        (["--enableAllowlist"], {"gas-deny"}),
        (["-enableAllowlist=true", "-enableDenylist=true"], set()),
        (["--enableAllowlist=false", "--enableDenylist"], {"gas-allow"}),
    ],
)
def test_card_list_annotations_are_read_only_if_flags_enable_them(told, flags, unread):
    assert start("--unsafe", *flags).exit_code == 0
    assert told[0].unread_annotations == unread
    dialect = load_dialect("gas").without(told[0].unread_annotations)
    assert {"gas-allow", "gas-deny"} - dialect.annotation_keys == unread
    assert dialect.annotation_keys >= {"gas-same-gpu", "gas-container-cards"}


def test_flags_without_effect_are_accepted(told):
    assert start("--unsafe", "--qps=50", "-burst", "100", "-v", "4", "-logtostderr").exit_code == 0
    assert len(told) == 1


def choose(policy, states, foo=1, cards=1):
    request = ContainerRequest("c", Kind.APP, cards, amounts=((FOO, foo),))
    return [share.card for share in place(states, PodRequest((request,)), policy).containers["c"]]


def test_cards_are_chosen_by_name_with_preferred_card_first(told):
    start("--unsafe")
    policy = told[0].policy
    cards = [Card(f"id{number}", "intel", "", None, minor=number, amounts=((FOO, 4),)) for number in (2, 10, 1)]
    assert choose(policy, build_empty_states(cards), cards=3) == ["id1", "id10", "id2"]
    cards[0] = msgspec.structs.replace(cards[0], preferred=True)
    assert choose(policy, build_empty_states(cards), cards=2) == ["id2", "id1"]
    assert policy.score_node(build_empty_states(cards), 10) == 0


def test_balanced_resource_policy_chooses_least_used_card(told):
    for resource in ("foo", "memory.max", "millicores"):
        start("--unsafe", f"--balancedResource={resource}")
    cards = [
        Card(f"id{number}", "intel", "", 16, minor=number, amounts=((FOO, 9),), preferred=not number)
        for number in range(3)
    ]
    states = [
        CardState(cards[0], 8, 500, empty=False, free_amounts=((FOO, 4),)),
        CardState(cards[1], 12, 100, empty=False, free_amounts=((FOO, 3),)),
        CardState(cards[2], 4, 900, empty=False, free_amounts=((FOO, 5),)),
    ]
    assert [choose(each.policy, states) for each in told] == [["id2"], ["id1"], ["id2"]]


def test_cards_of_previous_containers_count_as_used(told):
    start("--unsafe", "--balancedResource=foo")
    cards = [Card(f"id{number}", "intel", "", None, minor=number, amounts=((FOO, 9),)) for number in range(2)]
    requests = [ContainerRequest(name, Kind.APP, 1, amounts=((FOO, 2),)) for name in "abc"]
    placed = place(build_empty_states(cards), PodRequest(tuple(requests)), told[0].policy)
    assert [placed.containers[name][0].card for name in "abc"] == ["id0", "id1", "id0"]
