import json
import textwrap

import pytest

from accelkit.errors import ExampleError
from accelkit.examples.custom import Custom, read_custom

AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a.b/c", "operator": "In", "values": ["d"]}]}]
        }
    }
}
AFFINITY_YAML = """\
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
    - matchExpressions:
      - key: a.b/c
        operator: In
        values: [d]
"""
TOLERATION = {"key": "gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
TOLERATION_YAML = 'key: gpu\noperator: Equal\nvalue: "true"\neffect: NoSchedule\n'
INDENTS = pytest.mark.parametrize("indent", ["", "  ", "        ", "\t", " " * 23])


def indented(text, indent):
    return textwrap.indent(text, indent)


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "own.txt"
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    return write


def patch(*operations):
    return [{"op": "add", "path": path, "value": value} for path, value in operations]


@INDENTS
def test_affinity_is_read_at_any_indentation(file, indent):
    assert read_custom(affinity=file(indented(AFFINITY_YAML, indent))).affinity == AFFINITY


@INDENTS
def test_toleration_is_read_at_any_indentation(file, indent):
    assert read_custom(toleration=file(indented(TOLERATION_YAML, indent))).tolerations == [TOLERATION]


@INDENTS
def test_json_patch_is_read_at_any_indentation(file, indent):
    text = "# ours\n- op: add\n  path: /spec/affinity\n  value:\n" + indented(AFFINITY_YAML, "    ")
    assert read_custom(affinity=file(indented(text, indent))).affinity == AFFINITY


@pytest.mark.parametrize(
    "content",
    [
        AFFINITY,
        {"affinity": AFFINITY},
        patch(("/spec/affinity", AFFINITY)),
        patch(("/spec/template/spec/affinity", AFFINITY)),
        patch(("/spec/podTemplate/spec/affinity", {}), ("/spec/affinity/nodeAffinity", AFFINITY["nodeAffinity"])),
        "\ufeff" + json.dumps(AFFINITY),
        "---\n" + AFFINITY_YAML.replace("\n", "\r\n"),
    ],
)
def test_affinity_is_read_in_every_supported_form(file, content):
    assert read_custom(affinity=file(content)).affinity == AFFINITY


@pytest.mark.parametrize(
    "content",
    [
        TOLERATION,
        [TOLERATION],
        {"tolerations": [TOLERATION]},
        patch(("/spec/tolerations", [TOLERATION])),
        patch(("/spec/tolerations/-", TOLERATION)),
        patch(("/spec/tolerations/0", TOLERATION)),
        patch(("/spec/tolerations", []), ("/spec/tolerations/-", TOLERATION)),
    ],
)
def test_toleration_is_read_in_every_supported_form(file, content):
    assert read_custom(toleration=file(content)).tolerations == [TOLERATION]


@pytest.mark.parametrize(
    "content",
    [
        {"a.b/c": "true"},
        '        a.b/c: "true"\n',
        {"nodeSelector": {"a.b/c": "true"}},
        patch(("/spec/nodeSelector/a.b~1c", "true")),
        patch(("/spec/nodeSelector", {}), ("/spec/template/spec/nodeSelector/a.b~1c", "true")),
    ],
)
def test_node_selector_applies_only_to_its_own_workload(file, content):
    assert read_custom(node_selectors=(None, file(content), None)) == Custom(
        node_selectors=(None, {"a.b/c": "true"}, None)
    )


def test_missing_files_produce_no_customization_and_tolerations_keep_order(file):
    assert read_custom() == Custom()
    other = {"operator": "Exists"}
    both = patch(("/spec/tolerations/-", TOLERATION), ("/spec/tolerations/-", other))
    assert read_custom(toleration=file(both)).tolerations == [TOLERATION, other]


@pytest.mark.parametrize(
    ("variable", "content", "reason", "expected"),
    [
        ("CUSTOM_AFFINITY", "nodeAffinty: {}", "unknown field `nodeAffinty`", "a mapping of nodeAffinity"),
        ("CUSTOM_AFFINITY", "- nodeAffinity: {}", "got `array`", "a mapping of nodeAffinity"),
        (
            "CUSTOM_AFFINITY",
            AFFINITY_YAML.replace("    nodeSelectorTerms", "  nodeSelectorTerms"),
            "unknown field `nodeSelectorTerms`",
            "a mapping of nodeAffinity",
        ),
        ("CUSTOM_AFFINITY", "a: b: c", "mapping values are not allowed", "a mapping of nodeAffinity"),
        ("CUSTOM_AFFINITY", "# nothing\n", "the value is empty", "a mapping of nodeAffinity"),
        ("CUSTOM_AFFINITY", patch(("/spec/tolerations/-", {})), "does not point to affinity", "a mapping"),
        ("CUSTOM_AFFINITY", patch(("/spec/affinity/a/b", {})), "does not point to affinity", "a mapping"),
        ("CUSTOM_AFFINITY", [{"op": "remove", "path": "/spec/affinity"}], "'remove'", "a mapping"),
        ("CUSTOM_TOLERATION", {**TOLERATION, "efect": "x"}, "unknown field `efect`", "a toleration"),
        ("CUSTOM_TOLERATION", {**TOLERATION, "effect": "Never"}, "'Never'", "a toleration"),
        ("CUSTOM_TOLERATION", "key: gpu\nvalue: true\n", "got `bool`", "a toleration"),
        ("CUSTOM_NODE_SELECTOR_3", "a: true", "got `bool`", "numbers in quotes"),
        ("CUSTOM_NODE_SELECTOR_3", "just text", "got `str`", "a mapping of node labels"),
        ("CUSTOM_NODE_SELECTOR_3", "a: 1\n---\nb: 2", "single document", "a mapping of node labels"),
        ("CUSTOM_NODE_SELECTOR_3", "{" * 5000, "", "a mapping of node labels"),
    ],
)
def test_invalid_content_is_reported_with_file_variable_and_expected_format(file, variable, content, reason, expected):
    path = file(content)
    files = dict.fromkeys(["CUSTOM_AFFINITY", "CUSTOM_TOLERATION", "CUSTOM_NODE_SELECTOR_3"]) | {variable: path}
    affinity, toleration, third = files.values()
    with pytest.raises(ExampleError) as caught:
        read_custom(affinity, toleration, (None, None, third))
    words = str(caught.value)
    assert words.startswith(f"{path} ({variable}) is not a valid ")
    assert reason in words
    assert expected in words
    assert "\n" not in words


def test_missing_or_binary_file_is_reported_in_one_sentence(tmp_path):
    with pytest.raises(ExampleError, match=r"cannot read \S*absent \(CUSTOM_AFFINITY\): .*No such file"):
        read_custom(affinity=tmp_path / "absent")
    (tmp_path / "own").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ExampleError, match=r"cannot read \S+ \(CUSTOM_TOLERATION\)"):
        read_custom(toleration=tmp_path / "own")
