"""A real Prometheus on this machine that scrapes what a test names, and the queries of accelkit's dashboards."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from ports import free_port

ROOT = Path(__file__).resolve().parents[1]
FILES = ROOT / "roles/monitoring/files"
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a panel, with Grafana's variables filled in."""

    board: str
    title: str
    expression: str

    def __str__(self) -> str:
        return f"{self.board}: {self.title}"


def list_queries(period: str = "5m") -> list[Query]:
    """Return the queries of all panels; `period` stands for what Grafana makes of the scrape interval."""
    variables = {"$__rate_interval": period, "$node": ".*", "$card": ".*", "$namespace": ".*"}
    found = []
    for path in sorted((FILES / "dashboards").iterdir()):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                expression = target["expr"]
                for name, value in variables.items():
                    expression = expression.replace(name, value)
                found.append(Query(path.stem, panel["title"], expression))
    return found


class RealPrometheus:
    """A running Prometheus."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url, self._session = url, session

    async def ask(self, expression: str) -> list[Any]:
        """Return the result of a query; the test fails where Prometheus refuses it."""
        async with self._session.get(f"{self._url}/api/v1/query", params={"query": expression}) as answer:
            body = await answer.json()
        assert body["status"] == "success", (expression, body)
        found: list[Any] = body["data"]["result"]
        return found

    async def wait(self, expression: str) -> list[Any]:
        """Return the result of a query once it has one."""
        async with asyncio.timeout(_SECONDS):
            while not (found := await self._try(expression)):
                await asyncio.sleep(0.2)
        return found

    async def _try(self, expression: str) -> list[Any]:
        try:
            return await self.ask(expression)
        except aiohttp.ClientError:
            # It does not listen yet.
            return []


@asynccontextmanager
async def run_prometheus(
    program: str, folder: Path, targets: Mapping[str, Sequence[str]]
) -> AsyncIterator[RealPrometheus]:
    """Run Prometheus with accelkit's rules for as long as it is needed.

    Args:
        program: its executable.
        folder: an empty one for its configuration and data.
        targets: addresses as `HOST:PORT`, by job.
    """
    jobs = [
        {
            "job_name": job,
            "honor_labels": True,
            "static_configs": [{"targets": list(addresses), "labels": {"node": "n"}}],
        }
        for job, addresses in targets.items()
    ]
    intervals = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration = {"global": intervals, "rule_files": [str(FILES / "rules.yml")], "scrape_configs": jobs}
    (folder / "prometheus.json").write_text(json.dumps(configuration))
    port = free_port()
    options = {
        "config.file": folder / "prometheus.json",
        "storage.tsdb.path": folder / "data",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    command = [program, *(f"--{name}={value}" for name, value in options.items())]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        async with aiohttp.ClientSession() as session:
            yield RealPrometheus(f"http://127.0.0.1:{port}", session)
    finally:
        process.terminate()
        process.wait(30)
