import json

from click.testing import CliRunner

from accelkit.cli import main
from accelkit.sandbox.fake_host.host import FakeHost


def run(*arguments):
    return CliRunner().invoke(main, ["discover", *map(str, arguments)])


def test_the_cards_of_a_host_are_listed(tmp_path):
    FakeHost(tmp_path).add("amd", 2, "MI300X")
    output = json.loads(run("--host-root", tmp_path, "-o", "json").stdout)
    assert [card["vendor"] for card in output["cards"]] == ["amd", "amd"]
    table = run("--host-root", tmp_path).stdout
    assert table.splitlines()[0].split() == ["CARD", "VENDOR", "MODEL", "MEMORY"]
    assert table.count("MI300X") == 2
    assert "192 GiB" in table


def test_a_host_without_cards_is_reported(tmp_path):
    assert "no card was found" in run("--host-root", tmp_path).stdout
    assert json.loads(run("--host-root", tmp_path, "-o", "json").stdout) == {
        "cards": [],
        "libraries": {},
        "missing": [],
        "network": None,
        "peers": None,
        "obstacles": {},
    }


def test_the_vendors_libraries_are_listed_with_their_problems(tmp_path):
    FakeHost(tmp_path).add("enflame", 1, "S60")
    output = json.loads(run("--host-root", tmp_path, "-o", "json").stdout)
    [library] = output["libraries"]["enflame"]
    assert (library["name"], library["state"]) == ("libefml.so", "missing")
    table = run("--host-root", tmp_path).stdout
    assert "libefml.so: it does not exist in the host's library folders" in table


def test_a_root_that_is_not_a_directory_is_refused(tmp_path):
    done = run("--host-root", tmp_path / "none")
    assert done.exit_code == 1
    assert "is not a folder; set ACCELKIT_HOST_ROOT" in done.stderr


def test_nics_are_listed_with_requirements_of_peer_access(tmp_path):
    host = FakeHost(tmp_path).add("nvidia", 1, "T4")
    nic = host.find_device_folder(host.cards[0].bdf).parents[1] / "0000:1e:00.0"
    host._write_pci_device(nic, "15b3", "1021", "020700", 0)
    (nic / "net" / "ib0").mkdir(parents=True)
    lines = [line.split() for line in run("--host-root", tmp_path).stdout.splitlines()]
    assert ["ib0", "pci", "switch", "unknown", "unknown"] in [line[1:] for line in lines]
    assert ["nvidia_peermem:", "unknown,", "dma-buf", "for", "RDMA:", "unknown"] in lines
    output = json.loads(run("--host-root", tmp_path, "-o", "json").stdout)
    assert output["network"]["nearness"] == ["S"]
    assert output["peers"]["peer_module"] is None
    # An unknown fact is not an obstacle. A NIC without an RDMA device is.
    [obstacle] = output["obstacles"][output["cards"][0]["id"]]
    assert obstacle.startswith("its nearest NIC does not have an RDMA device")
    assert any("have an RDMA device" in " ".join(line) for line in lines)
