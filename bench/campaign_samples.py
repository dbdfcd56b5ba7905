"""Undamaged inputs of the campaign: small, made up, one of each kind."""

import gzip
import io
import json
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import zstandard
from pyarrow import parquet

from bench.campaign_readers import (
    Sample,
    read_capture,
    read_config,
    read_file,
    read_json,
    read_rows,
    read_rule,
    read_text,
)
from skewscope.adapters.formats.row_protocol import HelloFrame, RowFrame, SeriesFrame, encode
from skewscope.adapters.inputs.in_hand import list_in_hand
from skewscope.adapters.inputs.recording import demo_path, parse_topology_file
from skewscope.adapters.mapping.name_mapping import parse_mapping
from skewscope.engine.actions.action import action_to_json, parse_action
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.incident import parse_incident
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import RULES_FOLDER
from tests.adapters.notify.incidents import incident
from tests.support import packet_bytes
from tests.support.action_samples import build_verified
from tests.support.artefacts import ARTEFACTS

START = 1795341600
MAPPING = b"""\
version: 1
metrics:
  - {metric: my_clock, signal: gpu.sm_clock, unit: MHz, labels: {gpu: gpu}}
"""
CONFIG = b"""\
version: 1
topology: topology.yaml
listen: {port: 0}
store: {path: a.db, retention_days: 3}
sources: [{kind: scrape, name: s, targets: ['h:9100'], labels: {node: n0}}]
tell: [{kind: cloudevents, name: e, urls: ['http://h/']}]
silences: {most_days: 4}
"""


def build_samples() -> list[Sample]:
    """Returns a sample of each kind."""
    metrics, records = _metrics(), _records()
    logs = [Sample(kind, text.encode(), read_file("n0-eth1.txt")) for kind, text in ARTEFACTS.items()]
    own = [
        *logs,
        Sample("openmetrics", metrics, read_file("input.om")),
        Sample("openmetrics, zstandard", zstandard.ZstdCompressor().compress(metrics), read_file("input.om.zst")),
        Sample("openmetrics, gzip", gzip.compress(metrics, mtime=0), read_file("input.om.gz")),
        Sample("csv", _csv(), read_file("input.csv")),
        Sample("parquet", _parquet(), read_file("input.parquet")),
        Sample("kineto", json.dumps(_trace()).encode(), read_file("rank0.pt.trace.json")),
        Sample("flight recorder", pickle.dumps(_dump(), 2), read_file("nccl_trace_rank_0")),
        Sample("flight recorder, JSON", json.dumps(_dump()).encode(), read_file("nccl_trace_rank_0.json")),
        Sample("pcap", packet_bytes.pcap(records), read_capture("n0-eth0.pcap")),
        Sample("pcapng", packet_bytes.pcapng(records), read_capture("n0-eth0.pcapng")),
        Sample("rows", _rows(), read_rows),
        Sample("topology", (demo_path() / "topology.yaml").read_bytes(), read_text(parse_topology_file)),
        Sample("mapping", MAPPING, read_text(lambda text, file: parse_mapping(text, file, catalogue()))),
        Sample("config", CONFIG, read_config),
        Sample("rule", (Path(RULES_FOLDER) / "gpu-hard-fault-of-a-gpu.yaml").read_bytes(), read_rule),
        Sample("incident", incident(3).as_line().encode(), read_json(parse_incident)),
        Sample("action", json.dumps(action_to_json(build_verified())).encode(), read_json(parse_action)),
    ]
    kinds = {one.kind for one in own}
    files = (one for one in list_in_hand() if one.sample and "/" not in one.file and one.kind not in kinds)
    return [*own, *(Sample(one.kind, one.sample.encode(), read_file(one.file)) for one in files)]


def _metrics() -> bytes:
    lines = [
        f'DCGM_FI_DEV_{name}{{gpu="{gpu}",Hostname="h{n}"}} {n + gpu}.5 {START + n}'
        for name in ("SM_CLOCK", "GPU_UTIL")
        for n in range(3)
        for gpu in range(2)
    ]
    return "\n".join(["# TYPE DCGM_FI_DEV_SM_CLOCK gauge", *lines, "# EOF", ""]).encode()


def _csv() -> bytes:
    rows = [f"{START + n},host.cpu_util,{n / 100},h1" for n in range(20)]
    return "\n".join(["time,signal,value,node", *rows, ""]).encode()


def _parquet() -> bytes:
    columns = {
        "time": [float(START + n) for n in range(20)],
        "signal": ["host.cpu_util"] * 20,
        "value": [n / 100 for n in range(20)],
        "node": ["h1"] * 20,
    }
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out)
    return out.getvalue()


def _trace() -> dict[str, object]:
    events = [
        {"ph": "X", "cat": cat, "name": name, "ts": 1000.0 * n, "dur": 500.0, "pid": 0, "tid": 7, "args": {"stream": 7}}
        for n in range(8)
        for cat, name in (("user_annotation", f"ProfilerStep#{n}"), ("kernel", "ncclDevKernel_AllReduce"))
    ]
    return {"traceEvents": events, "distributedInfo": {"rank": 0, "world_size": 2}, "baseTimeNanoseconds": 1}


def _dump() -> dict[str, object]:
    entries = [
        {
            "record_id": n,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": n,
            "p2p_seq_id": 0,
            "is_p2p": False,
            "profiling_name": "nccl:all_reduce",
            "state": "completed",
            "time_created_ns": (START + n) * 10**9,
            "retired": True,
            "timeout_ms": 600_000,
        }
        for n in range(9)
    ]
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "pg_status": {"0": {"last_enqueued_collective": 8, "last_completed_collective": 8}},
        "entries": entries,
    }


def _records() -> list[packet_bytes.Record]:
    datagram = packet_bytes.ipv4("10.0.0.1", "10.0.0.2", 17, packet_bytes.roce(4, 9, 1))
    frame = packet_bytes.ethernet(datagram, 0x0800)
    return [packet_bytes.Record(frame, START * 10**9 + n * 10**8) for n in range(30)]


def _rows() -> bytes:
    """Returns a body before its compression, which would hide most damages."""
    known = SeriesFrame(0, 0, (SeriesKey("host.cpu", "node", "n0"),) * 4)
    rows = [RowFrame(n, float(START + n), 0, np.ones(4)) for n in range(5)]
    return zstandard.ZstdDecompressor().decompress(encode([HelloFrame("n0", "b", "1"), known, *rows]))
