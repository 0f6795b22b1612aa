"""Traces: what is read, and what is said of those that are wrong."""

import re

import pytest
from small_trace import NODES, TASKS, write_trace

from accelkit.errors import ConfigurationError
from accelkit.simulator.trace import Task, TraceNode, read_nodes, read_tasks


def test_nodes_and_tasks_are_parsed(tmp_path):
    nodes, tasks = write_trace(tmp_path)
    assert read_nodes(nodes)[1:] == [TraceNode("b", 16000, 65536, 4, "V100"), TraceNode("c", 8000, 32768, 0, "")]
    assert read_tasks(tasks) == [
        Task(1000, 1024, 1, 500),
        Task(1000, 1024, 1, 1000, frozenset({"T4"})),
        Task(2000, 2048, 2, 1000, frozenset({"V100", "P100"})),
        Task(4000, 4096, 0, 0),
    ]


def test_task_list_without_models_is_parsed_and_multiple_cards_are_whole(tmp_path):
    _, tasks = write_trace(tmp_path, tasks="name,cpu_milli,memory_mib,num_gpu,gpu_milli\nt,1,1,2,300\n")
    assert read_tasks(tasks) == [Task(1, 1, 2, 1000)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sn,cpu_milli\na,1\n", "has no column memory_mib, gpu, model"),
        ("", "has no column sn, cpu_milli"),
        (NODES.replace("16000,65536,2", "-1,65536,2"), "line 2: cpu_milli must be an integer from 0 to"),
        (NODES.replace("16000,65536,2", f"{2**41},65536,2"), "line 2: cpu_milli must be an integer from 0 to"),
        (NODES.replace("a,16000,65536,2,T4", "a,16000"), "line 2 is too short"),
        (NODES.replace("65536,2,", "65536,999,"), "line 2: a node has 999 cards; the limit is "),
        (NODES.replace("\nb,", "\na,"), "contains a node twice"),
        ("sn,cpu_milli,memory_mib,gpu,model\na,1,1,0,\n", "has no cards; set a list of nodes with cards"),
    ],
)
def test_invalid_node_is_refused_with_its_line(tmp_path, text, sentence):
    nodes, _ = write_trace(tmp_path, nodes=text)
    with pytest.raises(ConfigurationError, match=re.escape(sentence)):
        read_nodes(nodes)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (TASKS.replace("1,500", "1,0"), "line 2: gpu_milli of a task with a card must be from 1 to 1000"),
        (TASKS.replace("1,500", "1,1001"), "line 2: 1 card with 1001 thousandths each exceed the limits"),
        (TASKS.replace("2,1000", "129,1000"), "line 4: 129 cards"),
        (TASKS.replace("1,500", "x,500"), "line 2: num_gpu must be an integer from 0 to"),
        ("cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,0,0\n", "requests a card; set a list of tasks with num_gpu"),
    ],
)
def test_invalid_task_is_refused_with_its_line(tmp_path, text, sentence):
    _, tasks = write_trace(tmp_path, tasks=text)
    with pytest.raises(ConfigurationError, match=re.escape(sentence)):
        read_tasks(tasks)


@pytest.mark.parametrize("name", ["none", "garbled"])
def test_unreadable_file_is_reported_with_its_path(tmp_path, name):
    (tmp_path / "garbled").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match=re.escape(f"cannot read {tmp_path}/{name}")):
        read_nodes(tmp_path / name)
