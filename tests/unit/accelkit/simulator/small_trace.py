"""Small traces of the tests' own."""

from __future__ import annotations

from pathlib import Path

NODES = """\
sn,cpu_milli,memory_mib,gpu,model
a,16000,65536,2,T4
b,16000,65536,4,V100
c,8000,32768,0,
"""
TASKS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
t0,1000,1024,1,500,
t1,1000,1024,1,1000,T4
t2,2000,2048,2,1000,V100|P100
t3,4000,4096,0,0,
"""


def write_trace(folder: Path, *, nodes: str = NODES, tasks: str = TASKS) -> tuple[Path, Path]:
    files = folder / "nodes.csv", folder / "tasks.csv"
    for file, text in zip(files, (nodes, tasks), strict=True):
        file.write_text(text)
    return files
