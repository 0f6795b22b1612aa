import pytest
from ruamel.yaml import YAMLError

from accelkit.yaml import load_yaml, load_yaml_documents


def test_load_yaml_reads_yaml_1_1_booleans_as_strings():
    assert load_yaml("a: no\nb: 010\nc: true") == {"a": "no", "b": 10, "c": True}


@pytest.mark.parametrize("text", ["a: 1\na: 2", "a: [", "a: 1\n---\nb: 2", "a: !!python/object:os.system x"])
def test_load_yaml_rejects_anything_but_one_plain_document(text):
    with pytest.raises(YAMLError):
        load_yaml(text)


def test_load_yaml_documents_preserves_order():
    assert load_yaml_documents(b"a: 1\n---\n- b\n") == [{"a": 1}, ["b"]]
