from ansible_collections.accelkit.kubernetes.plugins.lookup.guarded_keys import LookupModule

from accelkit.install.guarded_keys import list_guarded_keys


def test_lookup_returns_plain_lists_and_dicts():
    (found,) = LookupModule().run([])
    assert found["assignments"] == list(list_guarded_keys().assignments)
    assert {type(keys) for keys in found.values()} == {list, dict}
    assert found["runtime_defaults"] == {"CUDA_VERSION": "NVIDIA_VISIBLE_DEVICES"}


def test_lookup_works_in_template_in_check_mode(play):
    message = "runtime {{ lookup('accelkit.kubernetes.guarded_keys').runtime_variables | join(' ') }}"
    done = play([{"ansible.builtin.debug": {"msg": message}}], "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NVIDIA_VISIBLE_DEVICES" in done.stdout
