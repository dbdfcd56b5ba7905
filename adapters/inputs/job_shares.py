"""Inputs of kind `job-shares`: what a file system's server counted for each job or client, as `job_stats` of Lustre.

Who makes nearly all of many operations takes the server from the others. Two readings of a server are compared, of one
the time counts for which it says that it has counted.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from skewscope.adapters.formats.log_lines import decode_head, read_lines
from skewscope.adapters.inputs.file_origin import own_time
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.messages import metric_of
from skewscope.engine.model.parameters import MAJORITY, TENFOLD
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import NothingKnownError, Problem

EVENT = "job-floods-server"
SERVER = re.compile(
    r"(?:mdt|mds|obdfilter)\.(?P<server>[\w-]{1,100})\.(?:exports\.(?P<client>[^=\s]{1,100})\.stats|job_stats)="
)
JOB = re.compile(r"\s{0,40}(?:-\s{1,40})?job_id:\s{1,40}(?P<job>\S.{0,199})")
TIME = re.compile(
    r"\s{0,40}(?P<name>snapshot_time|start_time|elapsed_time):?\s{1,40}(?P<seconds>\d{1,15}(?:\.\d{1,9})?)(?:\s.*)?"
)
COUNT = re.compile(
    r"\s{0,40}(?P<name>\w{1,40}):?\s{1,40}"
    r"(?:\{ samples:\s{0,40}(?P<listed>\d{1,18}), unit:.*|(?P<plain>\d{1,18}) samples \[.*)"
)
METADATA = frozenset(
    (
        *("open", "close", "mknod", "link", "unlink", "mkdir", "rmdir", "rename", "getattr", "setattr", "getxattr"),
        *("setxattr", "statfs", "samedir_rename", "parallel_rename_file", "parallel_rename_dir", "crossdir_rename"),
    )
)
LEAST_RATE = 5000.0
"""Operations per second that keep a server busy (source: the manual of Lustre 2.x, which states 50,000 creations each
second for a server of metadata; a tenth of it is judgement)."""
HEAD_LINES = 200
NAMES_SHOWN = 100


class JobReading(NamedTuple):
    """What one reading says of a job at a server."""

    time: float
    """Seconds since 1970."""
    seconds: float | None
    """For which it has counted; None where that is not said."""
    operations: int


@dataclass(slots=True)
class JobTally:
    """The operations of one job in one reading, while its lines are read."""

    server: str
    job: str
    times: dict[str, float] = field(default_factory=dict)
    operations: int = 0

    def reading(self) -> JobReading:
        """Returns what it says."""
        now, start = self.times.get("snapshot_time", 0.0), self.times.get("start_time")
        return JobReading(now, self.times.get("elapsed_time", now - start if start else None), self.operations)


class JobRate(NamedTuple):
    """Metadata operations of a job at a server per second."""

    job: str
    rate: float


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are of such statistics."""
    return any(tally.operations for tally in read_tallies(decode_head(head)[:HEAD_LINES]))


def read_tallies(lines: Sequence[str]) -> Iterator[JobTally]:
    """Yields what lines say of each job, in their order."""
    server, tally = "", None
    for line in lines:
        if match := SERVER.search(line):
            server = match["server"]
            if tally:
                yield tally
            tally = JobTally(server, match["client"]) if match["client"] else None
        elif server and (match := JOB.fullmatch(line)):
            if tally:
                yield tally
            tally = JobTally(server, match["job"].strip().strip('"'))
        elif tally and (match := TIME.fullmatch(line)):
            tally.times[match["name"]] = float(match["seconds"])
        elif tally and (match := COUNT.fullmatch(line)) and match["name"] in METADATA:
            tally.operations += int(match["listed"] or match["plain"])
    if tally:
        yield tally


def list_rates(tallies: Sequence[JobTally]) -> Mapping[str, Sequence[JobRate]]:
    """Returns the rates of the jobs of each server, the highest first; those of which no time is known are left out."""
    readings: dict[tuple[str, str], list[JobReading]] = {}
    for tally in tallies:
        readings.setdefault((tally.server, tally.job), []).append(tally.reading())
    rates: dict[str, list[JobRate]] = {}
    for (server, job), own in readings.items():
        first, last = own[0], own[-1]
        passed = last.time - first.time or last.seconds
        count = last.operations - (first.operations if last.time > first.time else 0)
        if passed and passed > 0 and count > 0:
            rates.setdefault(server, []).append(JobRate(job, count / passed))
    return {server: sorted(own, key=lambda one: -one.rate) for server, own in rates.items()}


def read_series(file: BinaryIO, name: str, _labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns a message for each server that one job floods.

    Raises:
        InputError: there are too many lines; NothingKnownError: no server is flooded.
    """
    tallies = list(read_tallies([text for _, text in read_lines(file, name)]))
    collector, said = SeriesCollector(name), []
    for server, rates in list_rates(tallies).items():
        first, rest = rates[0], sum(one.rate for one in rates[1:])
        share = first.rate / (first.rate + rest)
        text = (
            f"{first.job[:NAMES_SHOWN]} makes {100 * share:.0f} % of the metadata operations of {len(rates)} jobs or "
            f"clients at {server}, {first.rate:,.0f} each second"
        )
        said.append(text)
        if len(rates) >= MAJORITY and first.rate >= max(LEAST_RATE, TENFOLD * rest):
            newest = max((one.times.get("snapshot_time", 0.0) for one in tallies), default=0.0) or own_time(name)
            message = {"node": server, "message": text}
            collector.add(metric_of(catalogue().events[EVENT].signal), message, newest, 1.0)
    if not (series := collector.series()):
        found = "; ".join(said[:MAJORITY]) or "no metadata operations with the time in which they were made"
        raise NothingKnownError(
            [Problem(name, 0, "", f"{found}: too little to judge", "a job that floods a server, or times of steps")]
        )
    return series


READER = artefact_reader(
    "operations of each job at a file system's server (job_stats of Lustre)", read_series, recognise
)
