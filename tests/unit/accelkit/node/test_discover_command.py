from __future__ import annotations

import json

from click.testing import CliRunner

from accelkit.cli import main
from accelkit.sandbox.fake_host.host import FakeHost


def run(*arguments):
    return CliRunner().invoke(main, ["discover", *map(str, arguments)])


def test_the_cards_of_a_host_are_listed(tmp_path):
    FakeHost(tmp_path).add("amd", 2, "MI300X")
    shown = json.loads(run("--host-root", tmp_path, "-o", "json").stdout)
    assert [card["vendor"] for card in shown["cards"]] == ["amd", "amd"]
    table = run("--host-root", tmp_path).stdout
    assert table.splitlines()[0].split() == ["CARD", "VENDOR", "MODEL", "MEMORY"]
    assert table.count("MI300X") == 2
    assert "192 GiB" in table


def test_a_host_without_cards_says_so(tmp_path):
    assert "no card was found" in run("--host-root", tmp_path).stdout
    assert json.loads(run("--host-root", tmp_path, "-o", "json").stdout) == {
        "cards": [],
        "libraries": {},
        "missing": [],
        "network": None,
        "peers": None,
        "obstacles": {},
    }


def test_the_vendors_libraries_are_listed_and_what_is_wrong_with_them(tmp_path):
    FakeHost(tmp_path).add("enflame", 1, "S60")
    shown = json.loads(run("--host-root", tmp_path, "-o", "json").stdout)
    [library] = shown["libraries"]["enflame"]
    assert (library["name"], library["state"]) == ("libefml.so", "missing")
    table = run("--host-root", tmp_path).stdout
    assert "libefml.so: it is in none of the host's library folders" in table


def test_a_root_that_is_none_is_refused(tmp_path):
    done = run("--host-root", tmp_path / "none")
    assert done.exit_code == 1
    assert "is not a folder; set ACCELKIT_HOST_ROOT" in done.stderr


def test_network_cards_are_shown_with_what_their_way_to_the_cards_needs(tmp_path):
    host = FakeHost(tmp_path).add("nvidia", 1, "T4")
    nic = host.find_device_folder(host.cards[0].bdf).parents[1] / "0000:1e:00.0"
    host._write_pci_device(nic, "15b3", "1021", "020700", 0)
    (nic / "net" / "ib0").mkdir(parents=True)
    lines = [line.split() for line in run("--host-root", tmp_path).stdout.splitlines()]
    assert ["ib0", "pci", "switch", "unknown", "unknown"] in [line[1:] for line in lines]
    assert ["nvidia_peermem:", "unknown,", "dma-buf", "for", "RDMA:", "unknown"] in lines
    shown = json.loads(run("--host-root", tmp_path, "-o", "json").stdout)
    assert shown["network"]["nearness"] == ["S"]
    assert shown["peers"]["peer_module"] is None
    # What is not known speaks against nothing; that the NIC shows no RDMA device does.
    [obstacle] = shown["obstacles"][shown["cards"][0]["id"]]
    assert obstacle.startswith("its nearest network card has no RDMA device")
    assert any("no RDMA device" in " ".join(line) for line in lines)
