import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.yaml import parse_yaml_documents

from accelkit.errors import ExampleError
from accelkit.examples.example import ALL_EXAMPLES, SETS
from accelkit.examples.files import clean, render, write_example
from accelkit.examples.objects import build_objects

EXAMPLE = SETS["kind"][0]


def test_each_example_has_its_own_file_name():
    names = [example.file_name for example in ALL_EXAMPLES]
    assert len(names) == len({*names}) == 48
    assert {"rwo-ns-rocm-v3-kind.yaml", "rox-cl-cuda-v2-nfd.yaml", "rox-ns-rocm-v3.yaml"} < {*names}


@pytest.mark.parametrize("example", ALL_EXAMPLES, ids=lambda example: example.file_name)
def test_example_file_contains_same_objects_in_yaml_1_1_and_1_2(example):
    objects = build_objects(example)
    text = render(objects)
    assert parse_yaml_documents(text) == objects
    assert [*yaml.safe_load_all(text)] == objects
    assert "&id" not in text


@given(
    st.dictionaries(st.text("yesnoof~:0x1_ .#'\"\n-é", max_size=6), st.text("yesnoftrul~:0x1_ .#'\"\n-é", max_size=6))
)
def test_text_values_remain_strings_in_yaml_1_1_and_1_2(labels):
    text = render([labels])
    assert parse_yaml_documents(text) == [labels]
    assert [*yaml.safe_load_all(text)] == [labels]


def test_writing_creates_folder_and_replaces_file(tmp_path):
    folder = tmp_path / "a" / "b"
    assert write_example("one\n", EXAMPLE, folder) == folder / "rwo-ns-rocm-v2-kind.yaml"
    assert write_example("two\n", EXAMPLE, folder).read_text() == "two\n"
    (tmp_path / "file").touch()
    with pytest.raises(ExampleError, match=r"cannot write \S*rwo-ns-rocm-v2-kind.yaml: .*; set another folder"):
        write_example("", EXAMPLE, tmp_path / "file")
    assert clean(tmp_path / "absent") == []


def test_clean_deletes_only_files_of_examples(tmp_path):
    written = sorted(write_example("", example, tmp_path) for example in ALL_EXAMPLES)
    others = ["rwo-ns-rocm-v2-kind.yaml.bak", "rwo-ns-rocm-v4.yaml", "mine.yaml", "rwo-namespace-rocm-v2.yaml"]
    for name in others:
        (tmp_path / name).touch()
    folder = tmp_path / "sub"
    write_example("", EXAMPLE, folder)
    assert clean(tmp_path) == written
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, "sub"])
    assert [*folder.iterdir()]
