import json

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.accelkit.kubernetes.plugins.lookup.collection_version import ROOT, read_version
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import COLLECTION_VERSION


def test_a_checkout_has_its_version_in_galaxy_yml(tmp_path):
    (tmp_path / "galaxy.yml").write_text("namespace: accelkit\nversion: 1.2.3\n")
    (tmp_path / "MANIFEST.json").write_text(json.dumps({"collection_info": {"version": "0.0.1"}}))
    assert read_version(tmp_path) == "1.2.3"


def test_an_installed_collection_has_its_version_in_its_manifest(tmp_path):
    (tmp_path / "MANIFEST.json").write_text(json.dumps({"collection_info": {"version": "1.2.3"}}))
    assert read_version(tmp_path) == "1.2.3"


def test_what_modules_take_for_it_is_the_version_of_this_collection():
    assert read_version(ROOT) == COLLECTION_VERSION


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"collection_info": 1}'])
def test_without_either_the_error_says_what_to_do(tmp_path, text):
    with pytest.raises(AnsibleLookupError, match="install it again"):
        read_version(tmp_path)
    (tmp_path / "MANIFEST.json").write_text(text)
    with pytest.raises(AnsibleLookupError, match="install it again"):
        read_version(tmp_path)


def test_the_lookup_reads_the_collection_that_runs(play):
    message = "version {{ lookup('accelkit.kubernetes.collection_version') }}"
    done = play([{"ansible.builtin.debug": {"msg": message}}], "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"msg": "version ' in done.stdout
