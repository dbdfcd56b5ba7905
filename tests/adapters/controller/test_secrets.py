"""No secret of a config is ever shown: not in an answer, the log, the store or a recording, whatever goes wrong."""

import base64
import json
import signal
import socketserver
import threading
import time
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from skewscope.adapters.controller.api import API_PREFIX, ROUTES
from skewscope.adapters.controller.store import Store
from skewscope.adapters.formats.row_protocol import ROWS_PATH, HelloFrame, RowFrame, encode
from skewscope.engine.engine import IncidentChange
from tests.adapters.controller.processes import AUTH, LOUD, TOKENS, running
from tests.adapters.controller.writer import incident
from tests.adapters.notify.servers import free_port
from tests.support.loopback import Says, Server

FLEET = "fleet-0123456789abcdef"
OPEN = "in-the-open-0123456789"
"""Of somebody who writes a secret into the config itself."""
FAILS = ("refused", "401", "500", "302", "hangs", "strange", "no tls")
"""How the other side of a source or a teller fails; where it answers, it repeats what it was sent."""


def secret(name, how):
    return f"{name}-{how}-5ecret".replace(" ", "-")


def repeated(asked):
    return " ".join((asked.headers.get("authorization", ""), asked.path, asked.body.decode("latin-1")))


@contextmanager
def others():
    """The address of each who fails in its own way."""
    ended = threading.Event()

    def answer(asked):
        how = asked.path.split("/")[1]
        said = repeated(asked).removeprefix("Bearer ")
        if how == "hangs":
            ended.wait(30)
            return None
        if how == "302":
            return Says(302, said.encode(), {"Location": f"http://127.0.0.1:1/?{said.split()[0]}"})
        told = json.dumps({"status": "error", "error": said}) if how == "200" else f"who is {said}?"
        return Says(int(how), told.encode())

    class Strange(socketserver.StreamRequestHandler):
        """Answers with what it was told, in the place of a status."""

        def handle(self):
            lines = [self.rfile.readline() for _ in range(8)]
            told = next((line for line in lines if line.startswith(b"Authorization")), b"").split()[-1:]
            self.wfile.write(b"HTTP/1.1 " + b" ".join(told) + b"\r\n\r\n")

    with ExitStack() as stack:
        server = stack.enter_context(Server(answer))
        strange = stack.enter_context(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Strange))
        strange.daemon_threads = True
        threading.Thread(target=strange.serve_forever, args=(0.02,), daemon=True).start()
        stack.callback(strange.shutdown)
        stack.callback(ended.set)
        found = {how: f"http://{server.place}/{how}" for how in ("401", "500", "302", "hangs", "200")}
        found["refused"] = f"http://127.0.0.1:{free_port()}"
        found["strange"] = f"http://127.0.0.1:{strange.server_address[1]}"
        found["no tls"] = f"https://{server.place}"
        yield found


def entries(places):
    """Sources and tellers with a secret each, one of each kind for each way to fail; and their secrets."""
    told = {"sources": [], "tell": []}
    variables = {}

    def add(where, kind, how, **more):
        name = secret(kind, how)
        variable = name.upper().replace("-", "_")
        variables[variable] = name
        told[where].append({"kind": kind, "name": f"{kind} {how}", "bearer": {"token": f"${{{variable}}}"}, **more})

    for how in (*FAILS, "200"):
        url = places[how]
        add("sources", "scrape", how, targets=[f"{url}/metrics?token={OPEN}"])
        add("sources", "prometheus-query", how, url=url, period=1)
        add("tell", "alertmanager", how, urls=[url], period=1, timeout=1)
        add("tell", "cloudevents", how, urls=[f"{url}/"], timeout=1)
    return told, variables


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store in which something fires, so that there is something to tell."""
    made = tmp_path_factory.mktemp("secrets")
    store, one = Store(made / "skewscope.db"), incident(3)
    store.write_tick(time.time(), [one], [IncidentChange(time.time(), one.id, "opened")])
    store.close()
    (made / "fleet").write_text(FLEET)
    return made


def questions(token):
    """(path, body, method, headers) of what somebody may ask: all routes, nonsense, and too much."""
    for route in ROUTES:
        headers = {"Last-Event-ID": "x"} if route.path.endswith("/events") else {"Content-Type": "application/json"}
        for values in ({"id": "i-3", "kind": "node", "name": "n0"}, {"id": "x", "kind": "x", "name": token or "x"}):
            for body in (b"{}", b"{", b"x" * 70_000) if route.method == "POST" else (None,):
                yield route.path.format(**values), body, route.method, headers
    row = RowFrame(1, time.time(), 0, np.array([1.0]))
    for path in (ROWS_PATH, "/api/v1/write", "/v1/metrics", "/nothing"):
        for body in (b"", b"nonsense", token.encode(), encode([HelloFrame("n0", "b", "1"), row])):
            yield path, body, "POST", {}


def asked_everything(found):
    """All answers, to those who may and to those who may not."""
    callers = ("", "wrong-0123456789abcdef", *TOKENS.values(), FLEET)
    return [
        found.ask(path, token, body, method, **headers)
        for token in callers
        for path, body, method, headers in questions(token)
    ]


def wrong_config(path):
    """Secrets in the open, in every place where somebody may write one."""
    more = [
        {"kind": "scrape", "name": "a", "targets": [f"http://user:{OPEN}@127.0.0.1:1"]},
        {"kind": "scrape", "name": "b", "targets": [f"http://:{OPEN}@127.0.0.1:1"], "bearer": OPEN},
        {"kind": "scrape", "name": "c", "targets": ["127.0.0.1:1"], "bearer": {"token": OPEN}},
        {"kind": "prometheus-query", "name": "d", "url": f"http://user:{OPEN}@127.0.0.1:1"},
    ]
    tell = [
        {"kind": "alertmanager", "name": "e", "urls": [f"http://user:{OPEN}@127.0.0.1:1"]},
        {"kind": "alertmanager", "name": "f", "urls": ["127.0.0.1:1"], "link": f"https://user:{OPEN}@here"},
        {"kind": "cloudevents", "name": "g", "urls": ["127.0.0.1:1"], "bearer": {"token": OPEN, "file": "x"}},
    ]
    tokens = [{"name": "h", "role": "read", "token": OPEN}, OPEN]
    path.write_text(
        f"version: 1\ntopology: topology.yaml\nsources: {json.dumps(more)}\ntell: {json.dumps(tell)}\n"
        f"auth: {{tokens: {json.dumps(tokens)}}}\n"
    )


@pytest.mark.slow
def test_nothing_shows_a_secret_whatever_goes_wrong(folder, monkeypatch):
    with others() as places:
        told, variables = entries(places)
        for variable, text in variables.items():
            monkeypatch.setenv(variable, text)
        apprise = ("refused", "401", "302")
        lines = [
            f"json://user:{secret('apprise', how)}@{places[how].removeprefix('http://')}/{OPEN}" for how in apprise
        ]
        (folder / "apprise").write_text("\n".join(lines))
        (folder / "grpc.token").write_text(secret("nvsentinel", "refused"))
        told["tell"].append({"kind": "chat", "name": "chat", "file": "apprise"})
        sentinel = {"kind": "nvsentinel", "name": "nvsentinel", "target": f"unix:{folder}/none.sock"}
        told["tell"].append(sentinel | {"token_file": "grpc.token"})
        told["sources"] += [{"kind": "remote-write", "name": "rw"}, {"kind": "otlp", "name": "otlp"}]
        auth = AUTH.replace("agents: {tokens: [", "agents: {tokens: [{node: '*', file: fleet}, ")
        more = (
            f"sources: {json.dumps(told['sources'])}\ntell: {json.dumps(told['tell'])}\nrecord: {{path: rec}}\n{auth}"
        )
        with running(folder, more, program=LOUD) as found:
            answers = asked_everything(found)

            def failing():
                sources = found.json(f"{API_PREFIX}/sources", TOKENS["READ"])["sources"]
                tellers = found.json(f"{API_PREFIX}/tellers", TOKENS["READ"])["tellers"]
                return [one for one in (*sources, *tellers) if one["trouble"]]

            # All but those who wait to be pushed to.
            found.until(lambda: len(failing()) >= len(told["sources"]) - 2 + len(told["tell"]) - 1 + len(apprise), 60)
            wrong_config(folder / "skewscope.yaml")
            found.process.send_signal(signal.SIGHUP)
            found.until(lambda: "the config was not reloaded" in found.log())
            answers += asked_everything(found)
    texts = {"answers": repr([(status, str(headers), body) for status, headers, body in answers]), "log": found.log()}
    for file in folder.rglob("*"):
        if file.is_file() and file.name not in ("apprise", "fleet", "grpc.token", "skewscope.yaml", "log"):
            texts[str(file.relative_to(folder))] = file.read_bytes().decode("latin-1")
    assert {status for status, *_ in answers} >= {200, 400, 401, 403, 404, 413}
    assert "skewscope.db" in texts
    every = [*TOKENS.values(), FLEET, OPEN, *variables.values(), *(secret("apprise", how) for how in apprise)]
    every.append((folder / "grpc.token").read_text())
    shown = {(one, where) for where, text in texts.items() for one in every if one in text or _packed(one) in text}
    assert shown == set()


def _packed(text):
    return base64.b64encode(text.encode()).decode().rstrip("=")[:-1]
