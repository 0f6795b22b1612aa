import json

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.accelkit.kubernetes.plugins.lookup.collection_version import ROOT, read_version
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import COLLECTION_VERSION


def test_version_of_checkout_is_read_from_galaxy_yml(tmp_path):
    (tmp_path / "galaxy.yml").write_text("namespace: accelkit\nversion: 1.2.3\n")
    (tmp_path / "MANIFEST.json").write_text(json.dumps({"collection_info": {"version": "0.0.1"}}))
    assert read_version(tmp_path) == "1.2.3"


def test_version_of_installed_collection_is_read_from_manifest(tmp_path):
    (tmp_path / "MANIFEST.json").write_text(json.dumps({"collection_info": {"version": "1.2.3"}}))
    assert read_version(tmp_path) == "1.2.3"


def test_collection_version_constant_matches_checkout():
    assert read_version(ROOT) == COLLECTION_VERSION


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"collection_info": 1}'])
def test_missing_version_raises_error_with_next_step(tmp_path, text):
    with pytest.raises(AnsibleLookupError, match="install it again"):
        read_version(tmp_path)
    (tmp_path / "MANIFEST.json").write_text(text)
    with pytest.raises(AnsibleLookupError, match="install it again"):
        read_version(tmp_path)


def test_lookup_returns_version_in_check_mode(play):
    message = "version {{ lookup('accelkit.kubernetes.collection_version') }}"
    done = play([{"ansible.builtin.debug": {"msg": message}}], "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"msg": "version ' in done.stdout
