"""Inputs of kind `nccl-inspector`: the records of collectives that NCCL's inspector writes for one rank."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

from skewscope.adapters.formats.json_records import JsonRecordParser
from skewscope.adapters.inputs.file_origin import check_size
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.kb.problems import InputError, Problem

STEP = 1 << 20
EXPECTED = "records with header, metadata and coll_perf, as the inspector writes them"


@dataclass(frozen=True, slots=True)
class CollectiveRecord:
    """One collective of one rank."""

    communicator: str
    ranks: int
    rank: int
    host: str
    time: float
    """Seconds since 1970."""
    operation: str
    number: int
    """Number of the collective in its communicator."""
    size: int
    """Bytes."""
    duration_us: float
    bandwidth: float
    """Bus bandwidth, GB/s."""
    is_timed: bool
    """Whether the GPU measured it; the CPU's times say nothing about the network."""

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the rank."""
        group = f"comm-{self.communicator}"
        return {"node": self.host, "group": group, "rank": str(self.rank), "nranks": str(self.ranks)}


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are records of the inspector."""
    return b'"coll_perf"' in head and b'"coll_sn"' in head


def read_records(file: BufferedReader, name: str) -> list[CollectiveRecord]:
    """Returns the records of a file; broken ones are left out.

    Raises:
        InputError: there is none, or there are too many.
    """
    parser, records = JsonRecordParser(), list[CollectiveRecord]()
    while data := file.read(STEP):
        records += _read_all(parser.feed(data))
        check_size(len(records), name, 0)
    if not records:
        raise InputError([Problem(name, 0, "", "no record of a collective", EXPECTED)])
    return records


def _read_all(given: Iterator[Mapping[str, Any]]) -> Iterator[CollectiveRecord]:
    for each in given:
        try:
            yield _read_record(each)
        except (KeyError, TypeError, ValueError, OverflowError):
            continue


def _read_record(given: Mapping[str, Any]) -> CollectiveRecord:
    head, about, perf = given["header"], given["metadata"], given["coll_perf"]
    return CollectiveRecord(
        str(head["id"]),
        int(head["n_ranks"]),
        int(head["rank"]),
        str(about["hostname"]),
        float(about["dump_timestamp_us"]) / 1e6,
        str(perf["coll"]),
        int(perf["coll_sn"]),
        int(perf["coll_msg_size_bytes"]),
        float(perf["coll_exec_time_us"]),
        float(perf["coll_busbw_gbs"]),
        "cpu" not in str(perf.get("coll_timing_source", "")).lower(),
    )


def add_records(collector: SeriesCollector, records: list[CollectiveRecord]) -> None:
    """Adds the series of some records: bandwidth, time and size of collectives, and their numbers."""
    for each in records:
        collector.add("skewscope_nccl_coll_seq", each.labels, each.time, each.number)
        if each.is_timed:
            labels = {**each.labels, "collective": each.operation}
            collector.add("nccl_bus_bandwidth_gbs", labels, each.time, each.bandwidth)
            collector.add("nccl_collective_exec_time_microseconds", labels, each.time, each.duration_us)
            collector.add("skewscope_nccl_coll_size", labels, each.time, each.size)


def read_series(file: BufferedReader, name: str, _labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of the rank of a file.

    Raises:
        InputError: it has no record.
    """
    collector = SeriesCollector(name)
    add_records(collector, read_records(file, name))
    return collector.series()


READER = artefact_reader("records of NCCL's inspector", read_series, recognise, set_kind="nccl-inspector-ranks")
