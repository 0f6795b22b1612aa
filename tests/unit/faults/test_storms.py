"""A storm is repeated by its seed and by the options that were not as by default; so a violation and the table say."""

from types import SimpleNamespace

import pytest
from faults.laboratory import build_node
from faults.restoring import count_units
from faults.storm import Storm
from faults.storms import build_parser, describe_options


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "--seconds 180"),
        ("--storms 100 --seconds 20 --keep --go-on --storms-per-start 5 --results x", "--seconds 20"),
        ("--seed 7 --seconds 90 --nodes 50 --without kill,stop", "--seconds 90 --nodes 50 --without kill,stop"),
        ("--fault-seconds 0 --dialects native,gcushare", "--seconds 180 --fault-seconds 0 --dialects native,gcushare"),
    ],
)
def test_describe_options_returns_options_that_repeat_storm(line, words):
    parser = build_parser()
    described = describe_options(parser, parser.parse_args(line.split()))
    assert described == words
    again = parser.parse_args(described.split())
    assert describe_options(parser, again) == words


LABORATORY = SimpleNamespace(shape=SimpleNamespace(nodes_per_process=3))


def make_storm(seed, line="--seconds 20"):
    options = build_parser().parse_args(line.split())
    storm = Storm.__new__(Storm)
    storm._seed, storm._laboratory, storm._options = seed, LABORATORY, options
    return storm


def test_digest_depends_on_seed_and_options():
    assert make_storm(7).digest() == make_storm(7).digest()
    assert make_storm(7).digest() != make_storm(8).digest()
    assert make_storm(7).digest() != make_storm(7, "--seconds 10").digest()


def test_short_storm_is_prefix_of_long_storm():
    short, long = (make_storm(7, f"--seconds {seconds} --fault-seconds 0")._plan(0) for seconds in (10, 180))
    assert short == long[: len(short)]
    assert 0 < len(short) < len(long)
    assert all(step.at < 10 for step in short)


def test_count_units_returns_units_of_built_node():
    assert [count_units(build_node(number), 2**30) for number in (0, 1)] == [96, 64]
    assert count_units(build_node(1), 2**29) == 128
