import pytest
from support.yaml import parse_yaml

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.component_config import ExtenderEntry, add_extender, has_extender, remove_extender

URL = "http://127.0.0.1:32766"
OURS = ExtenderEntry(url_prefix=URL)
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
BLOCK = """\
extenders:
- urlPrefix: http://127.0.0.1:32766
  filterVerb: filter
  prioritizeVerb: prioritize
  preemptVerb: preempt
  bindVerb: bind
  weight: 1
  enableHTTPS: false
  nodeCacheCapable: true
  ignorable: false
  httpTimeout: 10s
  managedResources:
  - name: accelkit.io/memory
    ignoredByScheduler: false
  - name: accelkit.io/cards
    ignoredByScheduler: false
"""
FOREIGN = "- urlPrefix: 'http://other:1'   # theirs\n  filterVerb: f\n  weight: 0x2\n"


def indented(block, spaces):
    return "".join(" " * spaces + line for line in block.splitlines(keepends=True))


ITEM = BLOCK.removeprefix("extenders:\n")

LAYOUTS = {
    "no list": (HEAD, HEAD + BLOCK),
    "no newline at the end": (HEAD.rstrip("\n"), HEAD + BLOCK),
    "comment at the end": (HEAD + "# the end\n", HEAD + "# the end\n" + BLOCK),
    "document markers": ("# top\n---\n" + HEAD + "...\n", "# top\n---\n" + HEAD + BLOCK + "...\n"),
    "null": (HEAD + "extenders:\nprofiles: []\n", HEAD + BLOCK + "profiles: []\n"),
    "empty": (
        HEAD + "extenders: []  # none\nprofiles: []\n",
        HEAD + BLOCK.replace("extenders:", "extenders:  # none") + "profiles: []\n",
    ),
    "foreign, comment behind": (
        HEAD + "extenders:\n# company\n" + FOREIGN + "\n# profiles follow\nprofiles:\n    - schedulerName: a\n",
        HEAD + "extenders:\n# company\n" + FOREIGN + ITEM + "\n# profiles follow\nprofiles:\n    - schedulerName: a\n",
    ),
    "foreign, indented list": (
        HEAD + "extenders:\n" + indented(FOREIGN, 4) + "leaderElection: {leaderElect: false}\n",
        HEAD + "extenders:\n" + indented(FOREIGN, 4) + indented(ITEM, 4) + "leaderElection: {leaderElect: false}\n",
    ),
    "other lists are indented": (
        HEAD + "profiles:\n  - schedulerName: a\n",
        HEAD + "profiles:\n  - schedulerName: a\nextenders:\n" + indented(ITEM, 2),
    ),
    "dash on its own line": (
        HEAD + "extenders:\n-\n   urlPrefix: x\n",
        HEAD + "extenders:\n-\n   urlPrefix: x\n" + ITEM,
    ),
    "block scalar last": (
        HEAD + "extenders:\n- urlPrefix: x\n  note: |\n    a\n    b\n\nprofiles: []\n",
        HEAD + "extenders:\n- urlPrefix: x\n  note: |\n    a\n    b\n" + ITEM + "\nprofiles: []\n",
    ),
    "Windows lines": (
        (HEAD + "profiles: []\n").replace("\n", "\r\n"),
        (HEAD + "profiles: []\n" + BLOCK).replace("\n", "\r\n"),
    ),
}


@pytest.mark.parametrize(("before", "after"), LAYOUTS.values(), ids=LAYOUTS)
def test_add_extender_changes_only_own_lines(before, after):
    assert add_extender(before, OURS) == after
    assert add_extender(after, OURS) == after


@pytest.mark.parametrize(("before", "after"), LAYOUTS.values(), ids=LAYOUTS)
def test_remove_extender_removes_only_own_lines(before, after):
    taken = remove_extender(after, URL)
    expected, found = parse_yaml(before), parse_yaml(taken)
    expected["extenders"] = expected.get("extenders") or []
    assert {**found, "extenders": found.get("extenders") or []} == expected
    assert [line for line in before.splitlines() if "#" in line and "none" not in line] == [
        line for line in taken.splitlines() if "#" in line
    ]
    assert remove_extender(taken, URL) == taken


def test_own_entry_is_updated_in_place():
    text = HEAD + "extenders:\n" + ITEM + FOREIGN
    changed = add_extender(text, ExtenderEntry(url_prefix="http://127.0.0.1:4000", weight=3))
    entries = parse_yaml(changed)["extenders"]
    assert [entry["urlPrefix"] for entry in entries] == ["http://127.0.0.1:4000", "http://other:1"]
    assert entries[0]["weight"] == 3
    assert changed.endswith(FOREIGN)


def test_duplicate_own_entries_are_merged():
    text = HEAD + "extenders:\n" + ITEM + FOREIGN + ITEM
    assert add_extender(text, OURS) == HEAD + "extenders:\n" + ITEM + FOREIGN


def test_own_entry_is_recognized_by_its_address():
    text = HEAD + f"extenders:\n- urlPrefix: {URL}/\n  managedResources:\n  - name: enflame.com/shared-gcu\n"
    assert has_extender(text, URL)
    assert not has_extender(text)
    assert remove_extender(text, URL) == HEAD


def test_flow_style_list_and_comments_of_other_lines_are_preserved():
    text = HEAD + "profiles: []  # keep me\nextenders: [{urlPrefix: x, weight: 2}]\n"
    changed = add_extender(text, OURS)
    assert [entry["urlPrefix"] for entry in parse_yaml(changed)["extenders"]] == ["x", URL]
    assert "profiles: []  # keep me\n" in changed
    assert parse_yaml(remove_extender(changed)) == parse_yaml(text)


def test_json_configuration_is_accepted():
    text = '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}\n'
    assert parse_yaml(add_extender(text, OURS))["extenders"] == [OURS.build_entry()]


def test_anchor_in_foreign_entry_is_preserved():
    text = HEAD + "x: &tls {insecure: true}\nextenders:\n- urlPrefix: x\n  tlsConfig: *tls\nprofiles: []\n"
    changed = add_extender(text, OURS)
    assert parse_yaml(changed)["extenders"] == [{"urlPrefix": "x", "tlsConfig": {"insecure": True}}, OURS.build_entry()]


def test_second_extender_that_binds_is_refused():
    text = HEAD + "extenders:\n- urlPrefix: http://other:1\n  bindVerb: bind\n"
    with pytest.raises(ConfigurationError, match=r"http://other:1 already binds pods.*remove its entry"):
        add_extender(text, OURS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a mapping"),
        ("kind: Pod\napiVersion: v1\n", "does not contain a KubeSchedulerConfiguration"),
        ("kind: KubeSchedulerConfiguration\napiVersion: v1\n", "is not one of kubescheduler"),
        (HEAD + "---\n" + HEAD, "not a single YAML document"),
        (HEAD + "extenders: {a: b}\n", "not a list of mappings"),
        (HEAD + "extenders: [a]\n", "not a list of mappings"),
        ("a: [", "not a single YAML document"),
    ],
)
def test_unsupported_files_are_refused(text, message):
    with pytest.raises(ConfigurationError, match=message):
        add_extender(text, OURS)
    with pytest.raises(ConfigurationError, match=message):
        remove_extender(text)
