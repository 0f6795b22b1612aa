import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from snapshot import write_listing


def list_files(folder):
    return subprocess.run(
        ["sh", "-c", write_listing((str(folder),))], capture_output=True, text=True, check=True
    ).stdout


def test_temporary_kubelet_checkpoint_is_not_a_difference(tmp_path):
    folder = tmp_path / "device-plugins"
    folder.mkdir()
    (folder / "kubelet.sock").write_text("")
    before = list_files(tmp_path)
    (folder / "kubelet_internal_checkpoint").write_text("{}")
    (folder / ".3294404956").write_text("{}")
    assert list_files(tmp_path) == before


def test_other_hidden_file_is_a_difference(tmp_path):
    folder = tmp_path / "device-plugins"
    folder.mkdir()
    before = list_files(tmp_path)
    (folder / ".accelkit").write_text("")
    changed = list_files(tmp_path)
    assert changed != before
    (folder / ".accelkit").write_text("other content")
    assert list_files(tmp_path) != changed
