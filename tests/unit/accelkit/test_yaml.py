import pytest
from ruamel.yaml import YAMLError

from accelkit.yaml import load_yaml, load_yaml_documents


def test_words_that_older_yaml_took_for_booleans_are_texts():
    assert load_yaml("a: no\nb: 010\nc: true") == {"a": "no", "b": 10, "c": True}


@pytest.mark.parametrize("text", ["a: 1\na: 2", "a: [", "a: 1\n---\nb: 2", "a: !!python/object:os.system x"])
def test_what_is_not_one_plain_document_is_refused(text):
    with pytest.raises(YAMLError):
        load_yaml(text)


def test_documents_are_read_in_their_order():
    assert load_yaml_documents(b"a: 1\n---\n- b\n") == [{"a": 1}, ["b"]]
