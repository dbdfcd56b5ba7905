"""Pages of real exporters through our readers, against numbers that a few lines here take out of the same files."""

import csv
import fnmatch
import io
import math
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
import yaml

from skewscope.adapters.formats.openmetrics import ExpositionReader
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.model.topology import Group, Node, Port, Topology
from skewscope.kb.loader import catalogue

FAMILIES = yaml.safe_load(Path(__file__).with_name("real_pages.yaml").read_text())
DEVICES = ("mlx4_0:1", "mlx4_0:2", "mlx5_0", "i40iw0", "hfi1_0", "qib0", "eth0", "bond0", "lo")
LINE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
METRIC = re.compile(r"(?P<name>[^{ ]+)(?:\{(?P<labels>.*)\})?(?: \* (?P<factor>\S+))?")


@cache
def names(gpus: int) -> MetricResolver:
    ports = tuple(Port("n0", device.replace(":", "-"), "east-west", None, (), (device,)) for device in DEVICES)
    members = tuple(f"n0/gpu{n}" for n in range(gpus))
    group = Group("A", "data-parallel", members, "n0")
    return MetricResolver(catalogue(), Topology((Node("n0", "", gpus, (), ports),), (group,)))


def text_of(path):
    """A page; one sample of a README has a line of dots in it, and some end without a line feed."""
    return "".join(line + "\n" for line in path.read_text().split("\n") if line and line != "...")


def rows(text):
    """Name, labels and value of each sample: the independent reading."""
    for line in text.split("\n"):
        if match := LINE.fullmatch(line):
            yield match["name"], dict(LABEL.findall(match["labels"] or "")), float(match["value"])


def written(metric):
    """A pattern of names, labels and factor of what stands in the table."""
    match = METRIC.fullmatch(metric)
    return match["name"], dict(LABEL.findall(match["labels"] or "")), float(match["factor"] or 1.0)


def expected(family, text):
    """Sorted (histogram part, value) by signal, out of the page itself; and the names that are left."""
    found, left = defaultdict(list), set()
    table = [
        (signal, written(one))
        for signal, metrics in family["mapped"].items()
        for one in ([metrics] if isinstance(metrics, str) else metrics)
    ]
    for name, labels, value in rows(text):
        fitting = [
            (signal, factor)
            for signal, (pattern, wanted, factor) in table
            if fnmatch.fnmatchcase(name, pattern) and not name.endswith("_created") and wanted.items() <= labels.items()
        ]
        if not fitting and not name.endswith("_created"):
            left.add(name)
        for signal, factor in fitting if not labels.get(family.get("without", "")) else []:
            part = f"bucket:{float(labels['le']):g}" if "le" in labels else name.rpartition("_")[2]
            part = part if catalogue().signals[signal].type == "histogram" else ""
            found[signal].append((part, shown(value * (1.0 if part == "count" or "le" in labels else factor))))
    return {signal: sorted(those) for signal, those in found.items()}, left


def shown(value):
    """What DCGM writes where it has none is no number."""
    return "blank" if math.isnan(value) or value >= 2**62 else f"{value:.9g}"


def read(family, text):
    """The same through our readers."""
    intake, found = SeriesRegistry(), defaultdict(list)
    reader = ExpositionReader(names(family.get("gpus", 8)).target_lookup({"node": "n0"}, intake))
    block = reader.read(io.BytesIO(text.encode()), "page", 1.0)
    assert len(set(zip(intake.keys, intake.ranks, strict=True))) == len(block)
    for number, value in zip(block.series.tolist(), block.value.tolist(), strict=True):
        key = intake.keys[number]
        part = key.selector.rpartition(",")[2] if catalogue().signals[key.signal].type == "histogram" else ""
        bound = part.removeprefix("bucket:")
        found[key.signal].append((f"bucket:{float(bound):g}" if bound != part else part, shown(value)))
    return {signal: sorted(those) for signal, those in found.items()}


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_value_of_a_real_page_is_told_or_left_for_a_reason(shared, name):
    family = FAMILIES[name]
    pages = [page for glob in family["files"] for page in sorted((shared / "fixtures").glob(glob))]
    assert pages
    seen, used = set(), set()
    for page in pages:
        text = text_of(page)
        wanted, left = expected(family, text)
        assert read(family, text) == wanted, page
        seen |= set(wanted)
        reasons = {metric: [p for p in family["left"] if fnmatch.fnmatchcase(metric, p)] for metric in left}
        assert [metric for metric, found in reasons.items() if not found] == []
        used |= {pattern for found in reasons.values() for pattern in found}
    assert seen == set(family["mapped"])


def test_every_page_among_the_samples_is_in_the_table(shared):
    folder = shared / "fixtures"
    pages = {p for p in folder.rglob("*") if p.suffix in (".prom", ".metrics")}
    assert pages <= {p for family in FAMILIES.values() for glob in family["files"] for p in folder.glob(glob)}


# Samples that are no pages: who reads them, or why nobody does.
ELSEWHERE = {
    "*/PROVENANCE": "where the samples are from",
    "ai-dynamo-dynamo/fpm_trace_v1.jsonl": "nobody: one made-up record of a format of its own, and no rule reads it",
    "influxdata-telegraf/*": "nobody: XML and JSON of nvidia-smi and rocm-smi, whose exporters are read; flow exports",
    "isc-ethq/*": "the agent's tests: statistics of ethtool",
    "leptonai-gpud/dmesg*": "test_kernel_log",
    "leptonai-gpud/kmsg*": "test_kernel_log",
    "leptonai-gpud/fabricmanager.log": "nobody: no condition shows in what the fabric manager logs there",
    "leptonai-gpud/lspci*": "nobody: names of devices, once",
    "leptonai-gpud/nvidia-smi*": "nobody: links of NVLink, which DCGM counts",
    "leptonai-gpud/sys-class-infiniband*": "the agent's tests: /sys",
    "mellanox-network-operator/*": "nobody: settings of DTS, of which the documentation speaks",
    "nvidia-dcgm-exporter/*.csv": "nobody: which fields dcgm-exporter is told to export",
    "nvidia-nccl/*": "test_nccl",
    "prometheus-node_exporter/*": "the agent's tests: /proc, /sys and statistics of ethtool",
    "prometheus-procfs/*": "the agent's tests: /sys",
    "rocm-device-metrics-exporter/nic/*": "nobody: what tools of AMD's NICs print",
    "utkuozdemir-nvidia_gpu_exporter/*.txt": "nobody: what nvidia-smi prints, whose pages are read",
}


def test_every_sample_is_read_or_left_for_a_reason(shared):
    folder = shared / "fixtures"
    pages = {p for family in FAMILIES.values() for glob in family["files"] for p in folder.glob(glob)}
    others = [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p not in pages]
    reasons = {name: [glob for glob in ELSEWHERE if fnmatch.fnmatchcase(name, glob)] for name in others}
    assert [name for name, found in reasons.items() if not found] == []
    assert {glob for found in reasons.values() for glob in found} == set(ELSEWHERE)


def test_both_generations_of_dcgm_are_one(shared):
    aliases = {r["old_name"]: r["new_name"] for r in csv.DictReader((shared / "facts/dcgm_field_aliases.csv").open())}
    compared = 0
    for page in (shared / "fixtures").glob("*/dcgm*.prom"):
        old = text_of(page)
        new = re.sub(r"^DCGM_FI_\w+", lambda match: aliases.get(match[0], match[0]), old, flags=re.MULTILINE)
        new = new.replace("Hostname=", "hostname=")
        assert new != old
        assert read({}, new) == read({}, old)
        compared += 1
    assert compared == 2
