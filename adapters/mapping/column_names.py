"""What the columns of tables that scripts write mean: signals, labels and times by the words of their names.

A name is split into words and a unit. Its words stand in the tables below, or the column stays unknown: nothing is
taken because it looks alike.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import yaml

from skewscope.adapters.mapping.scales import UNITS

Words = frozenset[str]

MAX_NAME = 100
"""Characters; longer names have no words."""
MAX_PATH = 500
"""Characters of a name with what stands before it."""
JOINT = re.compile(r"[._:/]+(?=\w)")
MIN_END_WORDS = 2
OWN_WORDS = frozenset(("ttft", "tpot", "itl"))
"""Words that mean one thing, wherever they stand."""
OTHER_QUEUES = frozenset(
    (
        *("io", "iops", "disk", "nvme", "sd", "md", "dm", "block", "blk", "device", "storage", "volume", "scsi", "fs"),
        *(
            "nic",
            "eth",
            "net",
            "network",
            "tx",
            "rx",
            "port",
            "packet",
            "packets",
            "socket",
            "qdisc",
            "dma",
            "qp",
            "cq",
        ),
        *(
            "write",
            "read",
            "flush",
            "commit",
            "log",
            "logs",
            "event",
            "events",
            "message",
            "messages",
            "mail",
            "thread",
        ),
        *(
            "kafka",
            "rabbitmq",
            "amqp",
            "sqs",
            "redis",
            "celery",
            "db",
            "sql",
            "mysql",
            "postgres",
            "nfs",
            "rpc",
            "export",
        ),
    )
)
"""Words right before a queue, a backlog or what is pending, by which it is none of requests to a model."""
QUEUE_SIGNAL = "serve.waiting"
PER_SECOND = "/s"
"""Unit of what is counted in a second."""
GPU_WORDS = frozenset(("gpu", "sm", "vram", "fb", "hbm", "tensor", "dram"))
"""Words that say that a column is of a GPU."""
SYNONYMS = {
    **dict.fromkeys(("utilization", "utilisation"), "util"),
    **dict.fromkeys(("temperature",), "temp"),
    **dict.fromkeys(("memory", "vram", "fb", "framebuffer", "hbm"), "mem"),
    **dict.fromkeys(("clk", "clocks", "frequency", "freq"), "clock"),
    **dict.fromkeys(("pwr",), "power"),
    **dict.fromkeys(("iter", "iters", "iteration", "iterations", "steps"), "step"),
    **dict.fromkeys(("elapsed",), "duration"),
    **dict.fromkeys(("samples", "example", "examples"), "sample"),
    **dict.fromkeys(("requests", "reqs"), "request"),
    **dict.fromkeys(("tokens",), "token"),
    **dict.fromkeys(("communication",), "comm"),
    **dict.fromkeys(("idx", "no", "number"), "index"),
}
FILLERS = frozenset(("avg", "average", "mean", "num", "of"))
"""Words that leave the meaning of a name as it is."""
UNIT_WORDS = {
    **dict.fromkeys(("w", "watt", "watts"), "W"),
    **dict.fromkeys(("kw", "kilowatts"), "kW"),
    **dict.fromkeys(("mw", "milliwatts"), "mW"),
    **dict.fromkeys(("%", "pct", "percent", "percentage"), "%"),
    **dict.fromkeys(("ratio", "fraction"), "1"),
    **dict.fromkeys(("c", "celsius", "degc", "celsiusdegree", "degreecelsius"), "Cel"),
    "hz": "Hz",
    "khz": "kHz",
    "mhz": "MHz",
    "ghz": "GHz",
    **dict.fromkeys(("b", "byte", "bytes"), "By"),
    "kb": "kBy",
    "mb": "MBy",
    "gb": "GBy",
    "kib": "KiBy",
    "mib": "MiBy",
    "gib": "GiBy",
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "usec", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nsec", "nanoseconds"), "ns"),
}
SIGNAL_WORDS = {
    "gpu.power": ("power", "power draw", "power usage", "socket power", "current power", "current socket power"),
    "gpu.util": ("util", "busy", "gfx activity"),
    "gpu.temperature": ("temp", "core temp", "edge", "edge temp"),
    "gpu.hotspot_temperature": ("hotspot", "hotspot temp", "junction", "junction temp"),
    "gpu.mem_temperature": ("mem temp",),
    "gpu.sm_clock": ("sm clock", "clock", "gfx clock", "gfx 0 clock"),
    "gpu.mem_clock": ("mem clock",),
    "gpu.fb_used": ("mem used", "mem usage"),
    "gpu.fb_free": ("mem free",),
    "gpu.mem_copy_util": ("mem copy util", "mem controller util", "mem bandwidth util", "umc activity"),
    "gpu.sm_active": ("sm active",),
    "gpu.sm_occupancy": ("sm occupancy",),
    "gpu.tensor_active": ("tensor active",),
    "gpu.dram_active": ("dram active",),
    "step.duration": ("step time", "step duration", "time per step", "duration time per step", "per step"),
    "step.sample_rate": ("sample", "sample throughput", "throughput sample"),
    "step.data_time": (
        *("data", "data time", "data wait", "data load", "data load time", "data loading", "data loading time"),
        *(
            "loader",
            "loader time",
            "loader wait",
            "dataloader",
            "dataloader time",
            "dataloader wait",
            "fetch",
            "fetch time",
        ),
        *("batch load", "batch load time", "batch fetch", "input wait", "input time"),
    ),
    "step.compute_time": (
        *("compute", "compute time", "fwd bwd", "fwd bwd time", "forward backward", "forward backward time"),
        *("fwdbwd", "fwd bwd compute"),
    ),
    "step.comm_time": (
        *("comm", "comm time", "allreduce", "allreduce time", "all reduce", "all reduce time", "nccl", "nccl time"),
        *("grad sync", "grad sync time", "gradient sync", "gradient allreduce", "reduce scatter", "all gather"),
    ),
    "step.alloc_retries": ("alloc retries", "allocation retries", "cuda alloc retries", "cuda malloc retries"),
    "step.wait_time": (
        *(
            "allreduce wait",
            "all reduce wait",
            "comm wait",
            "comm wait time",
            "barrier",
            "barrier time",
            "barrier wait",
        ),
        *("sync wait", "nccl wait", "collective wait"),
    ),
    "serve.waiting": (
        *("request waiting", "request queued", "request pending", "request queue", "waiting", "queued", "pending"),
        *("backlog", "request backlog", "queue depth", "queue length", "queue size", "request queue depth"),
        *("request queue size", "request queue length", "queue waiting", "queue pending", "queue request"),
        *("waiting queue", "waiting queue size", "request deferred", "pending queue", "queue depth waiting"),
        *("pending request count", "waiting request count", "queued request count", "waiting request queue"),
    ),
    "serve.running": (
        *("request running", "running", "request active", "in flight", "inflight", "request in flight"),
        *("request inflight", "concurrency", "active", "request processing", "batch size current"),
        *("running request count", "active request count", "running sequence", "running seqs"),
    ),
    "serve.gen_throughput": (
        "gen throughput",
        "generation throughput",
        "generation token",
        "generation throughput token",
    ),
    "serve.prompt_throughput": ("prompt throughput", "prompt token", "prompt throughput token"),
    "serve.ttft": ("ttft", "time to first token", "first token latency", "first token time"),
    "serve.itl": ("itl", "inter token latency", "time between token"),
    "serve.tpot": ("tpot", "time per output token"),
    "serve.e2e": (
        *("e2e latency", "e2e request latency", "request latency", "end to end latency", "request duration"),
        *("response time", "target response time", "request response time", "model latency", "invocation latency"),
    ),
    "serve.queue_time": (
        *("queue time", "request queue time", "queue duration", "request queue duration", "queue wait"),
        *("queue wait time", "time in queue", "time queue", "waiting time", "request waiting time"),
    ),
    "serve.kv_usage": (
        *("kv cache usage", "kv cache util", "kv cache used", "kv cache occupancy", "kv usage", "kv util", "kv used"),
        *("kv block usage", "kv block util", "kv blocks usage", "kv blocks used", "kv mem usage", "kv mem util"),
        *("cache usage", "kv page usage", "kv pool usage", "kv pool util", "kv cache block usage"),
    ),
    "host.cpu_util": ("cpu util", "host cpu util"),
}
"""Words of the columns of each signal, those of GPUs without `gpu`."""
LABEL_WORDS = {
    "gpu": ("gpu", "gpu id", "gpu index", "device", "device id", "device index", "card", "card id", "card index"),
    "node": ("host", "hostname", "host name", "server", "server name", "machine", "machine name", "node", "node name"),
    "rank": ("rank",),
}
TIME_WORDS = (
    *("time", "timestamp", "time stamp", "ts", "datetime", "date time", "utc", "utc time", "timestamp utc", "epoch"),
    *("unix time", "unix timestamp", "unix ts", "unix", "epoch time", "epoch timestamp", "wall time", "walltime"),
)
NEEDLESS_WORDS = (
    *("mem total", "power limit", "enforced power limit", "power max limit", "power min limit", "power default limit"),
    *("clock max", "clock max sm", "clock max mem", "clock max graphics", "clock max video", "fan", "fan speed"),
    *("index", "name", "gpu name", "driver version", "vbios version", "pstate", "serial", "count", "unnamed 0"),
    *("loss", "train loss", "val loss", "eval loss", "lm loss", "grad norm", "lr", "learning rate", "step", "epoch"),
    *(
        "global step",
        "runtime",
        "accuracy",
        "perplexity",
        "ppl",
        "t",
        "replica",
        "replicas",
        "runners",
        "runner",
        "workers",
    ),
)
"""Columns that say nothing of a fault: limits, what a part is called, and the progress of a training."""
PACES = (
    (frozenset(["step", "it", "batch", "batches"]), True),
    (
        frozenset(["token", "tok", "toks", "sample", "sequence", "sequences", "seq", "image", "images", "throughput"]),
        True,
    ),
    (frozenset(["mfu", "tflops", "tflop", "flops", "pflops", "throughput"]), False),
)
"""Words of a pace, and whether a word for a second must be there; first those that say the most of a step's time."""
SECOND_WORDS = frozenset(["s", "sec", "second", "seconds", "tps", "ips"])
PACE_FILLERS = SECOND_WORDS | frozenset(
    (
        *("per", "gpu", "device", "rank", "node", "chip", "core", "train", "training", "perf", "global", "local"),
        *("avg", "mean", "average", "total", "current", "model", "achieved"),
    )
)
"""Words that say of what a pace is, or of when."""
ELAPSED = frozenset(
    (
        *(frozenset(("elapsed",)), frozenset(("elapsed", "time")), frozenset(("relative", "time"))),
        *(frozenset(("relative", "time", "process")), frozenset(("relative", "time", "wall")), frozenset(("runtime",))),
        *(frozenset(("time", "since", "start")), frozenset(("since", "start")), frozenset(("total", "time"))),
    )
)
"""Words of the time since a job began."""
ELAPSED_FILLERS = frozenset(("s", "sec", "secs", "second", "seconds", "in"))
EXPORTER_WORDS = frozenset(("nvidia", "smi", "skewscope"))
PER = re.compile(r"/(?=\s*(?:s|secs?|seconds?|it|iter|iteration|step)\b)", re.IGNORECASE)
BRACKETS = re.compile(r"[(\[]([^()\[\]]*)[)\]]\s*")
TOKEN = re.compile(r"[^\W_]+|%")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
GPU_NUMBER = re.compile(r"\bgpu (\d{1,3})\b")
NUMBERED = re.compile(r"\d.*")
NUMBERED_GPU = re.compile(r"gpu(\d{1,3})")
PLAIN = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
"""Names that need no quotes."""
GPU_INDEX = re.compile(r"(?:(?:gpu|card|cuda|device|nvidia)[ :_#-]*)?(\d{1,4})(?:\.0*)?", re.IGNORECASE)
WHOLE = re.compile(r"\d+(?:\.0*)?")
UNIT_PREFIXES = frozenset(("k", "m", "g", "ki", "mi", "gi"))
"""First parts of units that are divided where small letters meet capitals."""


class ColumnName(NamedTuple):
    """The words of a column's name, and its unit."""

    words: Words
    unit: str
    """As in a mapping file, or `/s`; '' where the name states none."""
    is_gpu: bool
    """Whether a word says that it is of a GPU."""
    gpu: str = ""
    """Index of the GPU that it names, as "gpu0_power" does."""


def _sets(texts: Iterable[str]) -> frozenset[Words]:
    return frozenset(frozenset(text.split()) for text in texts)


SIGNALS: Mapping[Words, str] = {words: signal for signal, texts in SIGNAL_WORDS.items() for words in _sets(texts)}
LABELS: Mapping[Words, str] = {words: label for label, texts in LABEL_WORDS.items() for words in _sets(texts)}
TIMES, NEEDLESS = _sets(TIME_WORDS), _sets(NEEDLESS_WORDS)


@lru_cache(4096)
def split_name(name: str) -> ColumnName:
    """Returns the words and the unit of a column's name; no words where it is too long or has none."""
    if len(name) > MAX_NAME:
        return ColumnName(frozenset(), "", is_gpu=False)
    text = unicodedata.normalize("NFKC", name)
    tokens = _tokens(PER.sub(" per ", text))
    unit = ""
    if (found := BRACKETS.search(text)) and (unit := UNIT_WORDS.get("".join(_tokens(found[1])), "")):
        tokens = _tokens(text[: found.start()] + " " + text[found.end() :])
    else:
        tokens, unit = _take_unit(tokens)
    tokens, gpu = _take_gpu(tokens)
    raw = frozenset(tokens)
    words = frozenset(SYNONYMS.get(word, word) for word in raw - FILLERS)
    return ColumnName(words, unit, bool(raw & GPU_WORDS), gpu)


def _tokens(text: str) -> list[str]:
    """Returns the words of a text in small letters, divided at punctuation and where capitals begin."""
    found: list[str] = []
    for token in TOKEN.findall(text):
        is_one = token.isupper() or token.casefold() in UNIT_WORDS
        parts = [token] if is_one else CAMEL.split(token)
        for part in map(str.casefold, parts):
            if found and found[-1] in UNIT_PREFIXES and found[-1] + part in UNIT_WORDS and len(parts) > 1:
                found[-1] += part
            else:
                found.append(part)
    return found


def _take_gpu(tokens: list[str]) -> tuple[list[str], str]:
    """Returns the words with a plain `gpu` for the one GPU that they name, and its index; '' where they name none."""
    joined = GPU_NUMBER.sub(r"gpu\1", " ".join(tokens)).split()
    found = {match[1] for word in joined if (match := NUMBERED_GPU.fullmatch(word))}
    if len(found) != 1:
        return tokens, ""
    return [NUMBERED_GPU.sub("gpu", word) for word in joined], str(int(found.pop()))


def _take_unit(tokens: list[str]) -> tuple[list[str], str]:
    """Returns the words without the one that is a unit: the last one, or the first one of `ms per step`."""
    if len(tokens) > 2 and tokens[-2] == "per" and UNIT_WORDS.get(tokens[-1]) == "s":
        return tokens[:-2], PER_SECOND
    if len(tokens) > 2 and tokens[1] == "per" and tokens[0] in UNIT_WORDS:
        return tokens[1:], UNIT_WORDS[tokens[0]]
    if len(tokens) > 1 and tokens[-1] in UNIT_WORDS:
        return tokens[:-1], UNIT_WORDS[tokens[-1]]
    return tokens, ""


def find_signal(name: ColumnName) -> str:
    """Returns the signal that the words of a name mean, '' for none."""
    bare = name.words - {"gpu"}
    signal = SIGNALS.get(bare, "")
    is_whole = bare == name.words or signal.startswith("gpu.")
    return signal if is_whole else ""


class NameEnd(NamedTuple):
    """The end of a name, which means a signal."""

    signal: str
    name: ColumnName
    """Of the end."""
    begin: str
    """What stands before it: what the exporter, the server or the place is called."""


def find_signal_at_end(text: str) -> NameEnd | None:
    """Returns the signal that the last words of a name mean, as many of them as mean one; None for none."""
    starts = [0, *(match.end() for match in JOINT.finditer(text))]
    for start in starts if len(text) <= MAX_PATH else ():
        name = split_name(text[start:])
        # One word alone could be of anything.
        if start and len(name.words) < MIN_END_WORDS and not OWN_WORDS & name.words:
            return None
        if signal := find_signal(name):
            begin = text[:start].rstrip("._:/")
            before = _tokens(JOINT.split(begin)[-1])[-1:] if signal == QUEUE_SIGNAL else []
            is_other = any(NUMBERED.sub("", word) in OTHER_QUEUES for word in before)
            return None if is_other else NameEnd(signal, name, begin)
    return None


def find_pace(text: str) -> int | None:
    """Returns how much a pace of a training job says of the time of its steps, by words: less for more; None for none.

    Counts need a word for a second: `tokens` alone may be those since the begin.
    """
    tokens = set(_tokens(PER.sub(" per ", text)))
    words = {SYNONYMS.get(word, word) for word in tokens} - PACE_FILLERS
    for rank, (some, needs_second) in enumerate(PACES):
        if words and words <= some and (not needs_second or tokens & SECOND_WORDS):
            return rank
    return None


def is_elapsed(text: str) -> bool:
    """Returns whether a column is the time since the job began, by its words."""
    tokens = frozenset(_tokens(text)) - ELAPSED_FILLERS
    return tokens in ELAPSED


def find_label(name: ColumnName) -> str:
    """Returns the label (`gpu`, `node`, `rank`) that the words of a name mean, '' for none."""
    return "" if name.unit or name.gpu else LABELS.get(name.words, "")


def is_time(name: ColumnName) -> bool:
    """Returns whether the words of a name mean a time: a moment, in a unit of time if in any."""
    return name.words in TIMES and (not name.unit or UNITS.get(name.unit, ("",))[0] == "s")


def clean_label(label: str, text: str) -> str:
    """Returns the value of a label: of a GPU its index, of a whole number its digits."""
    bare = text.strip()
    if label == "gpu" and (match := GPU_INDEX.fullmatch(bare)):
        return str(int(match[1]))
    return bare.partition(".")[0] if WHOLE.fullmatch(bare) else bare


def is_epoch(text: str) -> bool:
    """Returns whether a column is called an epoch: of time, or of a training."""
    return split_name(text).words == {"epoch"}


def is_needless(text: str) -> bool:
    """Returns whether a column or metric of this name says nothing of a fault."""
    name = split_name(text)
    bare = name.words - EXPORTER_WORDS
    is_duration = UNITS.get(name.unit, ("",))[0] == "s"
    return not text.strip() or (not is_duration and (bare in NEEDLESS or bare - {"gpu"} in NEEDLESS))


def mapping_line(name: str, signal: str, unit: str = "", entity: Mapping[str, str] = MappingProxyType({})) -> str:
    """Returns a line of a mapping file that maps a name to a signal, with labels of the entity, to be copied."""
    pairs = [("metric", _quote(name[:MAX_NAME])), ("signal", signal), *([("unit", _quote(unit))] if unit else [])]
    if entity:
        pairs.append(("entity", "{" + ", ".join(f"{label}: {_quote(text)}" for label, text in entity.items()) + "}"))
    return "`- {" + ", ".join(f"{key}: {text}" for key, text in pairs) + "}`"


def _quote(text: str) -> str:
    """Returns a text as YAML has it; words such as `no` are no text without quotes."""
    is_plain = PLAIN.fullmatch(text) and isinstance(yaml.safe_load(text), str)
    return text if is_plain else "'" + text.replace("'", "''") + "'"


def convert_unit(unit: str, wanted: str) -> float | None:
    """Returns the factor from a unit to that of a signal; None where they measure different things."""
    if unit == PER_SECOND:
        return 1.0 if wanted.endswith("}/s") else None
    if unit == wanted:
        return 1.0
    own, other = UNITS.get(unit), UNITS.get(wanted)
    return own[1] / other[1] if own and other and own[0] == other[0] else None
