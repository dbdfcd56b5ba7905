"""Certificates for tests, made by openssl; without it these tests are skipped."""

import shutil
import subprocess

import pytest

KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"


def openssl(folder, *words):
    """Runs openssl in a folder."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl here to make certificates")
    subprocess.run(["openssl", *" ".join(words).split()], cwd=folder, check=True, capture_output=True, timeout=30)


def signed_by_itself(folder, certificate, key):
    """Creates a self-signed certificate and its key."""
    openssl(folder, f"req -x509 {KEY} -days 2 -subj /CN=test -keyout {key} -out {certificate}")
