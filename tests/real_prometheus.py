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
import jinja2
from ports import free_port
from ruamel.yaml import YAML

ROLE = Path(__file__).resolve().parents[1] / "roles/monitoring"
FILES = ROLE / "files"
# Where the pods that are scraped run, as Prometheus would be told.
NODE = "n"
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


def build_job(component: str, addresses: Sequence[str]) -> dict[str, Any]:
    """Return the role's own scrape configuration, with addresses in place of the pods that Kubernetes would tell of."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)  # noqa: S701 - it renders YAML
    environment.filters["to_json"] = json.dumps
    values = YAML(typ="safe").load((ROLE / "vars/main.yml").read_text())
    given = {**values, "monitoring_interval": "1s", "monitoring_namespace": "accelkit"}
    template = environment.from_string((ROLE / "templates/scrape.yml.j2").read_text())
    (job,) = YAML(typ="safe").load(template.render(given))["scrape_configs"]
    del job["kubernetes_sd_configs"]
    labels = {
        "app_kubernetes_io_part_of": "accelkit",
        "app_kubernetes_io_name": f"accelkit-{component}",
        "app_kubernetes_io_component": component,
    }
    told = {f"__meta_kubernetes_pod_label_{name}": label for name, label in labels.items()}
    told |= {"__meta_kubernetes_pod_container_port_name": "metrics", "__meta_kubernetes_pod_node_name": NODE}
    return {**job, "job_name": component, "static_configs": [{"targets": list(addresses), "labels": told}]}


@asynccontextmanager
async def run_prometheus(
    program: str, folder: Path, targets: Mapping[str, Sequence[str]]
) -> AsyncIterator[RealPrometheus]:
    """Run Prometheus with accelkit's rules for as long as it is needed.

    Args:
        program: its executable.
        folder: an empty one for its configuration and data.
        targets: addresses as `HOST:PORT`, by the component whose pods would serve them.
    """
    jobs = [build_job(job, addresses) for job, addresses in targets.items()]
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
