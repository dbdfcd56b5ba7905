"""What a set of results shows, of one moment or of two sides: the only place where all findings come together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from skewscope.adapters.results.bandwidth_comparison import compare_tables, explain_table_changes
from skewscope.adapters.results.bandwidth_findings import judge_tables
from skewscope.adapters.results.result import BandwidthResult, BenchmarkResult, ServingResult
from skewscope.adapters.results.result_finding import ResultFinding
from skewscope.adapters.results.run_comparison import QuantityChange, compare_runs, explain_changes
from skewscope.adapters.results.serving_findings import QUEUE, find_failures, find_saturation, judge_run

Result = TypeVar("Result", bound=BenchmarkResult)


@dataclass(frozen=True, slots=True)
class ResultJudgement:
    """What results show."""

    changes: tuple[QuantityChange, ...]
    """The quantities of two sides; () where there is one."""
    findings: tuple[ResultFinding, ...]
    """The most telling first."""


def judge_results(results: Sequence[BenchmarkResult]) -> ResultJudgement:
    """Returns what results in their order show: runs of the same load are compared, the last with those before it."""
    earlier, latest = _split_last(_runs(results))
    changes = compare_runs(earlier, latest) if earlier else []
    findings = list(explain_changes(changes, earlier, latest))
    findings += find_saturation(latest)
    if not findings:
        findings = [found for each in latest for found in judge_run(each)]
    findings += [found for each in latest for found in find_failures(each)]
    old_tables, new_tables = _split_last(_tables(results))
    table_changes = compare_tables(old_tables, new_tables) if old_tables else []
    findings += explain_table_changes(table_changes, new_tables)
    findings += judge_tables(new_tables)
    return ResultJudgement((*changes, *table_changes), _unique(findings))


def compare_results(before: Sequence[BenchmarkResult], after: Sequence[BenchmarkResult]) -> ResultJudgement:
    """Returns what is worse on the second of two sides."""
    old, new = _runs(before), _runs(after)
    old_tables, new_tables = _tables(before), _tables(after)
    changes, table_changes = compare_runs(old, new), compare_tables(old_tables, new_tables)
    findings = [*explain_changes(changes, old, new), *explain_table_changes(table_changes, new_tables)]
    saturations = [next(find_saturation(side), None) for side in (old, new)]
    if saturations[1] is not None and findings and saturations[0] != saturations[1]:
        findings.append(saturations[1])
    return ResultJudgement((*changes, *table_changes), _unique(findings))


def _runs(results: Sequence[BenchmarkResult]) -> list[ServingResult]:
    return [each for each in results if isinstance(each, ServingResult)]


def _tables(results: Sequence[BenchmarkResult]) -> list[BandwidthResult]:
    return [each for each in results if isinstance(each, BandwidthResult)]


def _key(result: BenchmarkResult) -> tuple[str, ...]:
    """Returns what results of repeats share."""
    if isinstance(result, ServingResult):
        return str(result.load), result.subject
    return result.operation, result.measure.unit, *result.nodes


def _split_last(results: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    """Returns the results before the last one of each load or set of nodes, and the last ones."""
    earlier: list[Result] = []
    last: list[Result] = []
    for _, same in groupby(sorted(results, key=_key), key=_key):
        *before, newest = same
        earlier += before
        last.append(newest)
    return earlier, last


def _unique(findings: Iterable[ResultFinding]) -> tuple[ResultFinding, ...]:
    """Returns the first finding of each event and place; one queue says it of all loads."""
    found: dict[tuple[str, tuple[str, ...]], ResultFinding] = {}
    for each in findings:
        if not (each.event == QUEUE and any(event == "bench-saturates" for event, _ in found)):
            found.setdefault((each.event, each.nodes), each)
    return tuple(found.values())
