import asyncio
import logging

import pytest

from accelkit.errors import ConfigurationError
from accelkit.extender.sharing import rules_file as module
from accelkit.extender.sharing.rules_file import RulesFile

ONE = "quotas: [{namespaces: [a], cards: 1}]\n"
TWO = "quotas: [{namespaces: [a], cards: 2}]\n"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text(ONE)
    return path


def test_empty_file_has_no_rules(path):
    path.write_text("# none\n")
    assert RulesFile(path).read().quotas == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"quotas: [", "not valid YAML"),
        (b"\xff\xfe\x00", "not valid YAML"),
        (b"quotas: {}", "Expected `array`"),
        (b"a" * (2**20 + 1), "longer than 1048576 bytes"),
        (b"[" * 5000, "not valid YAML"),
        (b"a: &x [*x]", "Object contains unknown field|invalid"),
    ],
)
def test_invalid_file_at_start_is_an_error_with_next_step(path, text, words):
    path.write_bytes(text)
    with pytest.raises(ConfigurationError, match=words) as raised:
        RulesFile(path).read()
    assert str(path) in raised.value.message
    assert "correct the file" in raised.value.next_step


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot read the sharing rules"):
        RulesFile(tmp_path / "none").read()


def test_changed_rules_are_applied_once(path):
    file, taken = RulesFile(path), []
    file.read()
    file.reload(taken.append)
    assert taken == []
    path.write_text(TWO)
    file.reload(taken.append)
    file.reload(taken.append)
    assert [rules.quotas[0].cards for rules in taken] == [2]
    assert file.current


def test_invalid_new_file_is_logged_once_and_previous_rules_remain(path, caplog):
    file, taken = RulesFile(path), []
    file.read()
    with caplog.at_level(logging.ERROR):
        for text in ("quotas: 1", "quotas: 1", "reservations: 2"):
            path.write_text(text)
            file.reload(taken.append)
        path.unlink()
        file.reload(taken.append)
    assert (taken, file.current) == ([], False)
    assert len(caplog.messages) == 3
    assert all("the previous rules remain active" in each for each in caplog.messages)
    # What was in force before is in force again without being taken over.
    path.write_text(ONE)
    file.reload(taken.append)
    assert (taken, file.current) == ([], True)


async def test_rules_file_is_reloaded_periodically(path, monkeypatch):
    monkeypatch.setattr(module, "_TURN_SECONDS", 0.01)
    file, taken = RulesFile(path), asyncio.Queue()
    file.read()
    running = asyncio.create_task(file.run(taken.put_nowait))
    for cards, text in ((2, TWO), (1, ONE)):
        path.write_text(text)
        async with asyncio.timeout(60):
            assert (await taken.get()).quotas[0].cards == cards
    running.cancel()
