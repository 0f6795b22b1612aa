from ansible_collections.accelkit.kubernetes.plugins.lookup import plugin_names


def test_plugin_names_are_empty_without_package(monkeypatch):
    monkeypatch.setattr(plugin_names, "list_plugin_names", None)
    assert plugin_names.LookupModule().run([]) == [{"dialects": [], "policies": []}]


def test_setting_may_name_plugin_of_other_distribution_on_controller(play, tmp_path):
    info = tmp_path / "site" / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[accelkit.policies]\ntight = acme\n[accelkit.dialects]\nacme = acme\n")
    names = "lookup('accelkit.kubernetes.plugin_names')"
    settings = {
        "accelkit_policy": {"type": "str", "choices": "{{ ['binpack', 'spread'] + " + names + ".policies }}"},
        "accelkit_dialects": {"type": "list", "elements": "str", "choices": "{{ ['gas'] + " + names + ".dialects }}"},
    }
    task = {"accelkit.kubernetes.settings_check": {"settings": settings}}
    given = ("--extra-vars", '{"accelkit_policy": "tight", "accelkit_dialects": ["acme", "gas"]}')
    done = play([task], *given, python_path=str(info.parent))
    assert done.returncode == 0, done.stdout + done.stderr
    done = play([task], *given)
    assert done.returncode == 2
    said = " ".join(done.stdout.split())
    assert "value of accelkit_policy must be one of: binpack, spread, got: tight" in said
    assert "value of accelkit_dialects must be one or more of: gas. Got no match for: acme" in said
