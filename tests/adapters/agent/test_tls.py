"""Pushing over TLS: the controller's certificate is checked, and an agent may show one of its own."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from skewscope.adapters.formats.row_protocol import HelloFrame, encode
from skewscope.adapters.runtime.channel import Channel, ControllerEndpoint
from tests.support.push_receiver import Receiver

BODY = encode([HelloFrame("n0", "boot", "1")])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate for 127.0.0.1, its own authority, and its key."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl here to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=skewscope"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*command.split(), *names], cwd=folder, check=True, capture_output=True)
    return folder


def secured(receiver: Receiver, folder: Path, *, both: bool) -> str:
    """Makes a receiver speak TLS; gives its address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    if both:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "cert.pem")
    receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    return receiver.url.replace("http:", "https:")


def test_a_controller_that_proves_who_it_is_is_told_and_any_other_is_not(certificate):
    receiver = Receiver()
    try:
        url = secured(receiver, certificate, both=False)
        assert Channel(ControllerEndpoint(url, ca_file=str(certificate / "cert.pem"))).post(BODY).status == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            Channel(ControllerEndpoint(url)).post(BODY)
    finally:
        receiver.close()


def test_an_agent_shows_its_certificate_where_it_is_asked_for(certificate):
    receiver = Receiver()
    try:
        url = secured(receiver, certificate, both=True)
        own = {"ca_file": str(certificate / "cert.pem")}
        shown = {"certificate_file": str(certificate / "cert.pem"), "key_file": str(certificate / "key.pem")}
        assert Channel(ControllerEndpoint(url, **own, **shown)).post(BODY).status == 200
        with pytest.raises(OSError, match=r".*"):
            Channel(ControllerEndpoint(url, **own)).post(BODY)
    finally:
        receiver.close()
