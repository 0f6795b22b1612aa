import re
import sys
from pathlib import Path

import pytest
from jinja2 import Environment, StrictUndefined

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from release import CHECKSUMS, LOCK_OF_IMAGE, ReleaseError, read_commands, run, write_checksums

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([a-z0-9][a-z0-9.-]*)==(\S+)", re.MULTILINE)


def render_readme(**variables):
    environment = Environment(trim_blocks=True, undefined=StrictUndefined)  # noqa: S701 - Markdown
    python = {"stdout": "3.11 x86_64"}
    environment.filters["basename"] = lambda path: Path(path).name
    template = environment.from_string((ROOT / "playbooks/templates/bundle.md.j2").read_text())
    return template.render(images_version="1.2.3", __accelkit_bundle_python=python, **variables)


@pytest.mark.parametrize("image", [{}, {"images_file": "/x/accelkit-1.tar.gz"}])
def test_readme_of_bundle_lists_installation_commands(image):
    commands = read_commands(render_readme(**image))
    assert [each.split()[0] for each in commands] == ["sha256sum", "python3", "venv/bin/pip", "venv/bin/ansible-galaxy"]


def test_file_changed_after_checksums_is_detected(tmp_path):
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "a.whl").write_text("a")
    write_checksums(tmp_path, ("b.json", "{}"))
    listed = (tmp_path / CHECKSUMS).read_text()
    assert [line.split()[1] for line in listed.splitlines()] == ["b.json", "wheels/a.whl"]
    (tmp_path / "wheels" / "a.whl").write_text("b")
    with pytest.raises(ReleaseError, match=r"wheels/a\.whl: FAILED"):
        run("sha256sum", "--check", "--quiet", CHECKSUMS, cwd=tmp_path)


def test_image_lock_has_versions_of_controller_lock():
    controller = set(PIN.findall((ROOT / "requirements.lock").read_text()))
    image = PIN.findall(LOCK_OF_IMAGE.read_text())
    assert set(image) <= controller
    # What downloads them is not the Python that installs them, so nothing may depend on Python's version.
    assert len(image) == len({name for name, _ in image})
    assert "python_full_version" not in LOCK_OF_IMAGE.read_text()
