import json

import pytest

SETTINGS = {
    "accelkit_policy": {"type": "str", "choices": ["binpack", "spread"]},
    "accelkit_unit": {"type": "str", "format": "unit"},
    "accelkit_min_free": {"type": "str", "format": "size"},
    "accelkit_metrics_port": {"type": "int", "format": "port"},
    "accelkit_dialects": {"type": "list", "elements": "str", "format": "list", "choices": ["native", "gas"]},
    "accelkit_purge_logs": {"type": "bool"},
    "accelkit_scheduler_launch": {"type": "dict", "options": {"kind": {"type": "str", "choices": ["k3s"]}}},
}


@pytest.fixture
def check(play):
    """Check these variables; return the result of the task."""

    def check(**variables):
        task = {"accelkit.kubernetes.settings_check": {"settings": SETTINGS}}
        done = play([task], "--extra-vars", json.dumps(variables))
        return done.returncode == 0, " ".join(done.stdout.split())

    return check


def test_valid_settings_are_accepted(check):
    good, said = check(
        accelkit_policy="spread",
        accelkit_unit="512MiB",
        accelkit_min_free="4GiB",
        accelkit_metrics_port="0",
        accelkit_dialects=["gas"],
        accelkit_purge_logs="yes",
        accelkit_scheduler_launch={"kind": "k3s"},
        __accelkit_internal="x",
        other="x",
    )
    assert good, said


def test_empty_text_counts_as_unset(check):
    good, said = check(**dict.fromkeys(SETTINGS, ""))
    assert good, said


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"accelkit_policy": "sprad"}, "value of accelkit_policy must be one of: binpack, spread, got: sprad"),
        ({"accelkit_unit": "3MiB"}, "accelkit_unit: "),
        ({"accelkit_min_free": "much"}, "accelkit_min_free: "),
        ({"accelkit_metrics_port": 65536}, "accelkit_metrics_port: 65536 is not a valid port"),
        ({"accelkit_metrics_port": "x"}, "accelkit_metrics_port"),
        ({"accelkit_dialects": ["gsa"]}, "value of accelkit_dialects must be one or more of: native, gas"),
        (
            {"accelkit_dialects": "native,gas"},
            (
                'accelkit_dialects is a text, not a list; write it as ["native", "gas"], '
                """on the command line as -e '{"accelkit_dialects": ["native", "gas"]}'"""
            ),
        ),
        ({"accelkit_dialects": "gas"}, 'accelkit_dialects is a text, not a list; write it as ["gas"]'),
        ({"accelkit_scheduler_launch": {"kind": "k4s"}}, "must be one of: k3s, got: k4s"),
        ({"accelkit_scheduler_launch": {"knd": "k3s"}}, "knd"),
        ({"accelkit_polcy": "spread"}, "accelkit_polcy is not known; accelkit_policy is"),
        ({"accelkit_policy": "{{ nowhere }}"}, "accelkit_policy cannot be evaluated"),
    ],
)
def test_invalid_setting_is_rejected_with_its_name(check, variables, sentence):
    good, said = check(**variables)
    assert not good
    assert sentence in said


def test_all_invalid_settings_are_reported_in_one_run(check):
    good, said = check(accelkit_policy="x", accelkit_unt="1GiB", accelkit_metrics_port=-1)
    assert not good
    assert "accelkit_unt is not known; accelkit_unit is" in said
    assert "accelkit_policy" in said
    assert "-1 is not a valid port" in said
