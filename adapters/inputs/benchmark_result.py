"""Inputs of kind `benchmark-result`: one file of results of a benchmark, and what they show as events.

Several of them in a folder are one input of kind `benchmark-results`: they are judged against each other.
"""

from collections.abc import Mapping, Sequence
from io import BufferedReader

from skewscope.adapters.formats.bounds import JSON_BYTES
from skewscope.adapters.inputs.file_origin import find_node, find_server, own_time
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.messages import MessageReader, metric_of
from skewscope.adapters.inputs.text_times import LineTimes
from skewscope.adapters.results.bandwidth_findings import GPU, is_device
from skewscope.adapters.results.result import BenchmarkResult, ServingResult
from skewscope.adapters.results.result_finding import ResultFinding
from skewscope.adapters.results.result_format import find_result_format, read_results
from skewscope.adapters.results.result_judgement import judge_results
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import NothingKnownError, Problem

ORDER_S = 1e-3
"""Seconds between two findings: the most telling one comes first."""
MAX_TEXT = 300
"""Characters of a finding that are kept."""


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are of results that a known benchmark writes."""
    return find_result_format(head) is not None


def read_series(file: BufferedReader, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns what the results of a file show, and the messages that its lines are.

    Raises:
        InputError: the file is damaged; NothingKnownError: nothing in it says that something is wrong.
    """
    data = read_bytes(file, name)
    results = read_results(data, name)
    series = [
        *list_findings(judge_results(results).findings, results, name, labels),
        *list_messages(data, name, labels),
    ]
    if not series:
        raise too_little(results, name)
    return series


def read_bytes(file: BufferedReader, name: str) -> bytes:
    """Returns the bytes of a file of bounded size.

    Raises:
        InputError: there are more.
    """
    data = file.read(JSON_BYTES.limit() + 1)
    JSON_BYTES.check(name, len(data))
    return data


def list_findings(
    findings: Sequence[ResultFinding], results: Sequence[BenchmarkResult], name: str, labels: Mapping[str, str]
) -> list[LabelledSeries]:
    """Returns a series of one message for each place of each finding, at the time of the newest result."""
    collector = SeriesCollector(name)
    dated = [each.started + _duration(each) for each in results if each.started is not None]
    time = max(dated, default=own_time(name))
    server, note = find_server(labels, results[-1].file)
    for number, found in enumerate(findings):
        event = catalogue().events[found.event]
        places = [server]
        if event.entity in ("node", "gpu", "port"):
            places = [_place_of(node, find_node(labels, results[-1].file)[0]) for node in found.nodes]
        collector.note = note if server in places else collector.note
        for place in places or [{"node": find_node(labels, results[-1].file)[0]}]:
            message = {**place, "message": found.text[:MAX_TEXT]}
            collector.add(metric_of(event.signal), message, time + number * ORDER_S, 1.0)
    return collector.series()


def _place_of(name: str, own_node: str) -> dict[str, str]:
    """Returns the labels of a node, or of a GPU or a device of one, as in n7/gpu3 and n7/mlx5_4.

    Args:
        name: what the finding names.
        own_node: the node of a device whose name says none.
    """
    if found := GPU.fullmatch(name):
        return found.groupdict()
    node, _, part = name.rpartition("/")
    return {"node": node or own_node, "device": part} if node or is_device(part) else {"node": name}


def _duration(result: BenchmarkResult) -> float:
    return (result.duration or 0.0) if isinstance(result, ServingResult) else 0.0


def list_messages(data: bytes, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the messages in the lines of a text, such as those of NCCL beside a table."""
    if data.lstrip()[:1] in (b"{", b"["):
        return []
    times = LineTimes(labels, name, own_time(name))
    reader = MessageReader(name, labels, times)
    lines = data.decode("utf-8", "replace").splitlines()
    wanted = set(reader.select(lines))
    for number, line in enumerate(lines):
        times.read(line)
        if number in wanted:
            reader.read_line(number + 1, line)
    return reader.series()


def too_little(results: Sequence[BenchmarkResult], name: str) -> NothingKnownError:
    """Returns the error of results in which nothing is wrong, as far as they can say it."""
    many = "1 result" if len(results) == 1 else f"{len(results)} results"
    found = f"{many} of {results[0].tool}, and nothing in them that is wrong by itself"
    hint = "`skewscope compare BEFORE AFTER` says what is worse than in results from before."
    return NothingKnownError([Problem(name, 0, "", found, "results of other nodes, other loads or from before", hint)])


READER = artefact_reader(
    "result of a benchmark (vLLM, SGLang, aiperf, guidellm, inference-perf, Locust, nccl-tests, MLPerf, ...)",
    read_series,
    recognise,
    set_kind="benchmark-results",
    placed_by_name=True,
)
