"""Who comes with a certificate of our authority is known by the name in it."""

import http.client
import ssl
import time
from urllib.error import URLError

import numpy as np
import pytest

from skewscope.adapters.agent.port_map import TopologyClient
from skewscope.adapters.formats.row_protocol import HelloFrame, RowFrame, SeriesFrame, encode
from skewscope.adapters.runtime.channel import Channel, ControllerEndpoint
from tests.adapters.controller.processes import AUTH, KEYS, TOKENS, running
from tests.support.certificates import KEY, openssl

TLS = "tls: {certificate: server.pem, key: server.key, clients: ca.pem}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Certificates: of our authority for the server, a reader, the node n0 and some strangers, and of another one."""
    made = tmp_path_factory.mktemp("tls")
    for authority in ("ca", "foreign"):
        openssl(made, f"req -x509 {KEY} -days 2 -subj /CN={authority} -keyout {authority}.key -out {authority}.pem")
    (made / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    ours = [(name, "ca") for name in ("server", "reader", "r", "n0", "n9", "any")]
    for name, authority in (*ours, ("mallory", "foreign")):
        openssl(made, f"req {KEY} -subj /CN={'*' if name == 'any' else name} -keyout {name}.key -out {name}.csr")
        signed = f"-CA {authority}.pem -CAkey {authority}.key -CAcreateserial -days 2 -extfile names"
        openssl(made, f"x509 -req -in {name}.csr {signed} -out {name}.pem")
    return made


def shown(folder, name=""):
    """How somebody comes: with a certificate, or without one."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if name:
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return context


def channel(found, folder, name):
    own = {"certificate_file": str(folder / f"{name}.pem"), "key_file": str(folder / f"{name}.key")}
    return Channel(ControllerEndpoint(f"https://127.0.0.1:{found.port}", ca_file=str(folder / "ca.pem"), **own))


@pytest.fixture(scope="module")
def found(folder):
    named = AUTH.replace("auth:\n", "auth:\n  certificates: [{name: reader, role: read}]\n")
    with running(folder, TLS + named, shown(folder)) as running_one:
        yield running_one


def asked(found, context, path, token=""):
    found.context, before = context, found.context
    try:
        return found.ask(path, token)[0]
    finally:
        found.context = before


def test_a_name_with_a_role_may_what_the_role_may_and_that_of_a_token_means_nothing(found, folder):
    assert asked(found, shown(folder, "reader"), "/api/v1/incidents") == 200
    assert asked(found, shown(folder, "r"), "/api/v1/incidents") == 403, "the agent of a node r, at most"
    assert asked(found, shown(folder), "/api/v1/incidents") == 401
    assert asked(found, shown(folder), "/api/v1/incidents", TOKENS["READ"]) == 200


def test_no_certificate_speaks_for_every_node(found, folder):
    assert asked(found, shown(folder, "any"), "/api/v1/topology") == 401
    assert channel(found, folder, "any").post(encode([HelloFrame("n1", "b", "1")])).status == 401


def test_a_token_that_is_brought_counts_and_not_the_certificate(found, folder):
    assert asked(found, shown(folder, "r"), "/api/v1/incidents", "wrong-0123456789abcdef") == 401


def test_any_other_name_is_an_agent_that_speaks_for_its_node(found, folder):
    row = RowFrame(1, time.time(), 0, np.array([1.0, 1.0]))
    body = encode([HelloFrame("n0", "b", "1"), SeriesFrame(0, 0, KEYS), row])
    assert channel(found, folder, "n0").post(body).status == 200
    # Of another node, and of one that the topology does not have.
    assert channel(found, folder, "n0").post(encode([HelloFrame("n1", "b", "1")])).status == 403
    assert channel(found, folder, "n9").post(encode([HelloFrame("n9", "b", "1")])).status == 403
    assert asked(found, shown(folder, "n0"), "/api/v1/incidents") == 403
    news = TopologyClient([("", channel(found, folder, "n0"))], "n0").poll()
    assert news is not None
    assert "n0" in news.node


def test_a_certificate_of_another_authority_is_none(found, folder):
    with pytest.raises((ssl.SSLError, URLError, ConnectionError, http.client.HTTPException)):
        asked(found, shown(folder, "mallory"), "/healthz")
