"""A server that speaks as much of AWX's API as the modules of awx.awx use, and refuses what AWX refuses of a survey."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

TOKEN = "token-of-a-test"  # noqa: S105 - nobody's
VERSION = "24.6.1"
# What unified_job_templates lists, by plural.
UNIFIED = {
    "job_templates": "job_template",
    "workflow_job_templates": "workflow_job_template",
    "projects": "project",
    "inventory_sources": "inventory_source",
}
QUESTION_TYPES = ("text", "textarea", "password", "multiplechoice", "multiselect", "integer", "float")


class Refusal(Exception):  # noqa: N818 - it is an answer
    """An answer other than success."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(body)
        self.status, self.body = status, body


class FakeAwx:
    """Keeps objects by plural and identifier.

    Attributes:
        objects: what there is, by plural and then by identifier.
        surveys: the specification of each survey, by its path.
        writes: methods and paths of the requests that changed something.
        url: of the server, as CONTROLLER_HOST.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[int, dict[str, Any]]] = {}
        self.surveys: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        self.url = ""
        self._associations: dict[str, list[int]] = {}
        self._lock = threading.Lock()

    def add(self, plural: str, **fields: Any) -> dict[str, Any]:
        """Make an object, as a POST does."""
        key = 1 + max((each for kind in self.objects.values() for each in kind), default=0)
        path = f"/api/v2/{plural}/{key}/"
        related = {"survey_spec": f"{path}survey_spec/"} if plural.endswith("job_templates") else {}
        made = {"id": key, "url": path, "related": related, "summary_fields": {}, "scm_revision": "", **fields}
        made.setdefault("type", UNIFIED.get(plural, plural.removesuffix("s")))
        self.objects.setdefault(plural, {})[key] = made
        return made

    def find(self, plural: str, name: str) -> dict[str, Any]:
        """Return the one object of a name."""
        (found,) = [each for each in self.objects.get(plural, {}).values() if each["name"] == name]
        return found

    def find_associated(self, item: dict[str, Any], kind: str) -> list[int]:
        """Return the identifiers of what is associated with an object."""
        return sorted(self._associations.get(f"{item['url']}{kind}/", ()))

    def answer(
        self, method: str, target: str, body: dict[str, Any], authorization: str | None
    ) -> tuple[int, dict[str, Any]]:
        """Answer one request; one at a time."""
        if authorization != f"Bearer {TOKEN}":
            raise Refusal(401, {"detail": "Invalid token."})
        parts = urlsplit(target)
        with self._lock:
            if method != "GET":
                self.writes.append(f"{method} {parts.path}")
            return self._answer(method, parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)), body)

    def _answer(
        self, method: str, path: str, query: dict[str, str], body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        names = path.removeprefix("/api/v2/").strip("/").split("/")
        if names == [""]:
            return 200, {}
        if len(names) == 1:
            return self._answer_collection(method, names[0], query, body)
        item = self.objects.get(names[0], {}).get(int(names[1]))
        if item is None:
            raise Refusal(404, {"detail": "Not found."})
        if len(names) == 2:
            if method == "PATCH":
                item.update(body)
            return 200, item
        if names[2] == "survey_spec":
            if method == "POST":
                check_survey(body)
                self.surveys[path] = body
            return 200, self.surveys.get(path, {})
        return self._answer_association(method, path, body)

    def _answer_collection(
        self, method: str, plural: str, query: dict[str, str], body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        if method == "POST":
            return 201, self.add(plural, **body)
        plurals = UNIFIED if plural == "unified_job_templates" else (plural,)
        among = [each for name in plurals for each in self.objects.get(name, {}).values()]
        found = [each for each in among if all(str(each.get(key)) == value for key, value in query.items())]
        return 200, {"count": len(found), "next": None, "previous": None, "results": found}

    def _answer_association(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        associated = self._associations.setdefault(path, [])
        if method == "GET":
            return 200, {"count": len(associated), "next": None, "results": [{"id": each} for each in associated]}
        if body.get("disassociate"):
            associated.remove(body["id"])
        else:
            associated.append(body["id"])
        return 204, {}


def check_survey(spec: dict[str, Any]) -> None:
    """Refuse what AWX refuses of a survey.

    Raises:
        Refusal: it is none.
    """
    if missing := {"name", "description", "spec"} - spec.keys():
        raise Refusal(400, {"error": f"{missing} missing from survey spec."})
    variables: set[str] = set()
    for question in spec["spec"]:
        if missing := {"type", "question_name", "variable", "required"} - question.keys():
            raise Refusal(400, {"error": f"{missing} missing from survey question {question}."})
        kind, default = question["type"], question.get("default", "")
        if kind not in QUESTION_TYPES or not re.fullmatch(r"[A-Za-z_]\w*", question["variable"]):
            raise Refusal(400, {"error": f"{kind} of {question['variable']} is not allowed."})
        if question["variable"] in variables:
            raise Refusal(400, {"error": f"variable {question['variable']} is duplicated."})
        variables.add(question["variable"])
        if not isinstance(default, int if kind == "integer" and default != "" else str):
            raise Refusal(400, {"error": f"default of {question['variable']} must be of the type {kind}."})
        chosen = set(filter(None, str(default).split("\n")))
        if kind.startswith("multi") and not chosen <= set(question["choices"]):
            raise Refusal(400, {"error": f"default of {question['variable']} must be among its choices."})


@contextmanager
def serve() -> Iterator[FakeAwx]:
    """Serve an AWX with an organization and a credential until the context ends."""
    awx = FakeAwx()
    awx.add("organizations", name="Default")

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            try:
                status, answer = awx.answer(self.command, self.path, body, self.headers.get("Authorization"))
            except Refusal as exc:
                status, answer = exc.status, exc.body
            payload = b"" if status == 204 else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.send_header("X-API-Product-Name", "AWX")
            self.send_header("X-API-Product-Version", VERSION)
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = do_PATCH = _handle  # noqa: N815 - named by http.server

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        awx.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield awx
        finally:
            server.shutdown()
            thread.join()
