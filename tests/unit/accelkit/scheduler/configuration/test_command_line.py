import pytest

from accelkit.scheduler.configuration.command_line import Option, find_option_value, find_program, parse

WORDS = ["kube-scheduler", "--a=1", "--b", "2", "--leader_elect", "-v=3", "--a=4"]


def test_last_occurrence_of_option_applies_and_bare_option_is_true():
    options = parse(WORDS).options
    assert find_option_value(options, "a") == "4"
    assert find_option_value(options, "leader-elect") == "true"
    assert find_option_value(options, "c") is None


@pytest.mark.parametrize(
    ("words", "index"),
    [
        (["kube-scheduler"], 0),
        (["/usr/local/bin/kube-scheduler", "--x"], 0),
        (["/go-runner", "--log-file=/a", "/usr/local/bin/kube-scheduler"], 2),
        (["/hyperkube", "kube-scheduler"], 1),
        (["/hyperkube", "scheduler"], 1),
        (["scheduler"], None),
        ([], None),
    ],
)
def test_find_program_returns_index_of_kube_scheduler(words, index):
    assert find_program(words) == index


def test_removed_options_are_restored_at_their_positions():
    former = parse(WORDS)
    without = former.replacing({"b", "v"}, "config", "/x")
    assert without.words == ["kube-scheduler", "--a=1", "--config=/x", "--leader_elect", "--a=4"]
    again = without.without(lambda option: option.name == "config").with_those_of(former, ("b", "v"))
    assert again.words == WORDS


@pytest.mark.parametrize(
    ("name", "value", "ours"),
    [
        ("config", "/etc/kubernetes/accelkit/scheduler-0123456789ab.yaml", True),
        ("policy-config-file", "/x/scheduler-0123456789ab.json", True),
        ("config", "/etc/scheduler.yaml", False),
        ("config", "/x/scheduler-0123456789AB.yaml", False),
        ("kubeconfig", "/x/scheduler-0123456789ab.yaml", False),
        ("config", None, False),
    ],
)
def test_own_option_is_recognized_by_its_file_name(name, value, ours):
    assert Option(name, value, ()).is_ours is ours
