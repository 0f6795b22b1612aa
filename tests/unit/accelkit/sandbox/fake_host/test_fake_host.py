import pytest
from click.testing import CliRunner

from accelkit.cli import main
from accelkit.errors import SandboxError
from accelkit.sandbox.fake_host.host import FakeHost


def run(*arguments):
    return CliRunner().invoke(main, ["sandbox", "fake-host", *map(str, arguments)])


def test_cards_of_one_host_have_distinct_addresses(tmp_path):
    host = FakeHost(tmp_path).add("nvidia", 40, "T4").add("amd", 3, "MI300X")
    assert len({card.bdf for card in host.cards}) == 43


def test_symlinks_remain_valid_when_tree_is_moved(tmp_path):
    host = FakeHost(tmp_path / "a").add("amd", 1, "MI300X")
    (tmp_path / "a").rename(tmp_path / "b")
    assert (tmp_path / "b/sys/bus/pci/devices" / host.cards[0].bdf / "vendor").read_text() == "0x1002\n"


@pytest.mark.parametrize(("vendor", "model"), [("acme", "T4"), ("nvidia", "T5")])
def test_unknown_card_model_is_refused_with_known_models(tmp_path, vendor, model):
    with pytest.raises(SandboxError, match="choose one of"):
        FakeHost(tmp_path).add(vendor, 1, model)


def test_command_lists_written_cards(tmp_path):
    done = run(tmp_path / "host", "--cards", "nvidia:2:T4", "--cards", "amd:1:MI210")
    assert done.exit_code == 0
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["nvidia", "nvidia", "amd", "cards"]


@pytest.mark.parametrize("cards", ["nvidia", "nvidia:2", "nvidia:0:T4", "nvidia:x:T4", "nvidia:1:", "acme:1:T4"])
def test_command_reports_invalid_cards_and_writes_nothing(tmp_path, cards):
    done = run(tmp_path / "host", "--cards", cards)
    assert (done.exit_code, "Error: " in done.stderr) == (1, True)
    assert not (tmp_path / "host/sys/devices").exists()


def test_command_refuses_to_overwrite_existing_host(tmp_path):
    (tmp_path / "sys").mkdir()
    assert run(tmp_path, "--cards", "nvidia:1:T4").exit_code == 1
