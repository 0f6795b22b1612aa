import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import openshift_login

pytest.importorskip("openshift.helper.userpassauth", reason="the extra openshift is not installed")
# Of user and password, as basic authentication.
GOOD = "Basic YWRtaW46WnE5IQ=="


@pytest.fixture
def server(monkeypatch):
    """OpenShift's OAuth server, as far as a log-in sees it."""
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")

    class Handler(BaseHTTPRequestHandler):
        def answer(self, status, body=None, **headers):
            text = json.dumps(body).encode()
            self.send_response(status)
            for key, each in {"Content-Length": str(len(text)), **headers}.items():
                self.send_header(key, each)
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self):
            here = f"http://127.0.0.1:{self.server.server_port}"
            if self.path.startswith("/.well-known"):
                time.sleep(self.server.pause)
                places = {"authorization_endpoint": f"{here}/authorize", "token_endpoint": f"{here}/token"}
                self.answer(200, places)
            elif self.headers["authorization"] == GOOD:
                self.answer(302, Location=f"{here}/done?code=c&state=1")
            else:
                self.answer(401)

        def do_POST(self):
            sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
            assert "code=c" in sent
            self.answer(200, {"access_token": "sha256~t", "expires_in": 86400, "scope": "user:full"})

        def log_message(self, *_arguments):
            pass

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.pause = 0.0
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


def given(server, **changed):
    host = f"http://127.0.0.1:{server.server_port}/"
    return {"host": host, "username": "admin", "password": "Zq9!", **changed}


def test_login_returns_token_of_user(run_module, server):
    answer = run_module(openshift_login, given(server))
    assert (answer["changed"], answer["api_key"], answer["expires_in"]) == (False, "sha256~t", 86400)


def test_wrong_password_error_is_one_sentence_without_password(run_module, server):
    answer = run_module(openshift_login, {**given(server), "password": "wrong"})
    assert answer["failed"]
    assert answer["msg"].startswith("the log-in failed: Authorization failed.")
    assert "wrong" not in json.dumps(answer["msg"])


def test_login_times_out_when_server_does_not_respond(run_module, server):
    server.pause = 1.5
    answer = run_module(openshift_login, given(server, timeout=1))
    assert "took longer than 1 s" in answer["msg"]


def test_missing_package_is_named_in_error(run_module, server, monkeypatch):
    monkeypatch.setattr(openshift_login, "IMPORT_TRACE", "Traceback")
    answer = run_module(openshift_login, given(server))
    assert "openshift" in answer["msg"]
