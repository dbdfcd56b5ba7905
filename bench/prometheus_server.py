"""A Prometheus server for benches: started on loopback, fed by remote write, with its processor time."""

import json
import os
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

TICKS = os.sysconf("SC_CLK_TCK")


class Prometheus:
    """The process `prometheus`, with data and configuration in a folder; it ends with the context."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config, self.rules = folder / "prometheus.yml", folder / "rules.yml"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"

    def __enter__(self) -> Self:
        self.config.write_text("global: {evaluation_interval: 1s}\n")
        command = [
            "prometheus",
            f"--config.file={self.config}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address={self.address}",
            "--web.enable-remote-write-receiver",
            "--web.enable-lifecycle",
            "--log.level=error",
        ]
        self.process = subprocess.Popen(command, cwd=self.folder)
        for _ in range(300):
            if self.ready():
                return self
            time.sleep(0.1)
        self.process.kill()
        raise RuntimeError("prometheus did not start")

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, trace: TracebackType | None) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def ready(self) -> bool:
        """Whether the server answers."""
        try:
            return bool(self.get("/-/ready"))
        except (urllib.error.URLError, OSError):
            return False

    def get(self, path: str) -> bytes:
        """Returns the answer to a GET."""
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=60) as found:
            return bytes(found.read())

    def post(self, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Sends a POST."""
        request = urllib.request.Request(f"http://{self.address}{path}", body, dict(headers or {}))
        urllib.request.urlopen(request, timeout=120).close()

    def write(self, labels: Sequence[bytes], times: np.ndarray, values: np.ndarray) -> None:
        """Sends samples by remote write: values [series, times], times in milliseconds."""
        headers = {
            "Content-Encoding": "snappy",
            "Content-Type": "application/x-protobuf",
            "X-Prometheus-Remote-Write-Version": "0.1.0",
        }
        self.post("/api/v1/write", encode_snappy(encode_write_request(labels, times, values)), headers)

    def load(self, text: str) -> None:
        """Loads the rules of a text."""
        self.rules.write_text(text)
        self.config.write_text(f"global: {{evaluation_interval: 1s}}\nrule_files: [{self.rules.name}]\n")
        self.post("/-/reload")

    def cpu(self) -> float:
        """Returns the processor seconds of the process, all threads together."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def metrics(self) -> dict[str, float]:
        """Returns its own metrics by name; the last one of several series."""
        lines = (line for line in self.get("/metrics").decode().splitlines() if not line.startswith("#"))
        return {line.partition("{")[0].split()[0]: float(line.rpartition(" ")[2]) for line in lines}

    def firing(self) -> set[tuple[str, str]]:
        """Returns (rule, entity) of all alerts that fire."""
        alerts = json.loads(self.get("/api/v1/alerts"))["data"]["alerts"]
        found = (alert["labels"] for alert in alerts if alert["state"] == "firing")
        return {(labels["alertname"], f"{labels['instance']}/gpu{labels['gpu']}") for labels in found}


def labels(pairs: Mapping[str, str]) -> bytes:
    """Returns the labels of a series as fields of a protobuf TimeSeries."""
    return b"".join(_field(1, _field(1, k.encode()) + _field(2, v.encode())) for k, v in sorted(pairs.items()))


def encode_write_request(labels: Sequence[bytes], times: np.ndarray, values: np.ndarray) -> bytes:
    """Returns a protobuf WriteRequest for series whose labels have equal length."""
    sample = np.dtype([("head", "S3"), ("value", "<f8"), ("tag", "S1"), ("time", "S6")])
    samples = np.empty(values.shape, sample)
    samples["head"], samples["tag"], samples["value"] = b"\x12\x10\x09", b"\x10", values
    samples["time"] = [_varint(int(time)) for time in times]
    size = len(labels[0]) + samples[0].nbytes
    head = b"\x0a" + _varint(size)
    return b"".join(head + each + row.tobytes() for each, row in zip(labels, samples, strict=True))


def encode_snappy(body: bytes) -> bytes:
    """Returns a snappy block that holds the bytes uncompressed."""
    parts = [body[n : n + 65536] for n in range(0, len(body), 65536)]
    return _varint(len(body)) + b"".join(b"\xf4" + struct.pack("<H", len(part) - 1) + part for part in parts)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
