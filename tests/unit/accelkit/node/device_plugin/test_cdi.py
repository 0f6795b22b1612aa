import json

import pytest

from accelkit.node.device_plugin.cdi import find_cdi_name

KIND = "nvidia.com/gpu"


@pytest.fixture
def host(tmp_path):
    def write(path, *names, kind=KIND):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"kind": kind, "devices": [{"name": name} for name in names]})
        (tmp_path / path).write_text(text)

    write.root = tmp_path
    return write


@pytest.mark.parametrize("suffix", ["json", "yaml", "yml"])
@pytest.mark.parametrize("folder", ["etc/cdi", "var/run/cdi"])
def test_card_is_found_in_any_cdi_specification_of_host(host, folder, suffix):
    host(f"{folder}/nvidia.{suffix}", "0", "GPU-a")
    assert find_cdi_name(host.root, KIND, ["GPU-a"]) == "nvidia.com/gpu=GPU-a"
    assert find_cdi_name(host.root, KIND, ["GPU-b", "0"]) == "nvidia.com/gpu=0"
    assert find_cdi_name(host.root, KIND, ["GPU-b"]) is None
    assert find_cdi_name(host.root, "amd.com/gpu", ["GPU-a"]) is None


def test_invalid_cdi_specification_is_ignored(host):
    host("etc/cdi/nvidia.json.orig", "a")
    (host.root / "etc/cdi/broken.json").write_text("{")
    (host.root / "etc/cdi/bare.yaml").write_text("kind: nvidia.com/gpu\n")
    assert find_cdi_name(host.root, KIND, ["a"]) is None
    host("etc/cdi/nvidia.json", "a")
    assert find_cdi_name(host.root, KIND, ["a"]) == "nvidia.com/gpu=a"


def test_name_in_later_cdi_specification_is_used(host):
    host("etc/cdi/a.json", "0")
    host("var/run/cdi/a.json", "uuid")
    assert find_cdi_name(host.root, KIND, ["0", "uuid"]) == "nvidia.com/gpu=uuid"


def test_host_without_cdi_specifications_has_no_card_name(host):
    assert find_cdi_name(host.root, KIND, ["0"]) is None
