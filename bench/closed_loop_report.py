"""Table, figures and plot of a closed loop: what a run with a controller that acts gave back."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.closed_loop_routers import DEADLINE, SLOW_REPLICA, LoopRun
from bench.line_plot import Panel, draw_plot

SETTLE = 2.0
"""Seconds after the change that are not counted as "out": requests that the slow replica had taken before."""
BIN = 2.0


@dataclass(frozen=True)
class LoopFigures:
    """What is wanted of a closed loop."""

    out_after: float | None
    """Seconds from the fault until the router accepted the change; None if it never did."""
    back_after: float | None
    """Seconds from the end of the fault until the replica was in use again."""
    healthy_p95: float
    p95_ratio: float | None
    """p95 while the replica is out, over the healthy p95."""
    recovered: float | None
    """Share of the lost goodput that acting gave back."""
    lost_acting: int
    lost_observing: int
    ended: str
    """How the action ended."""
    others: int

    @property
    def problems(self) -> tuple[str, ...]:
        """What falls short of the aims: out within 10 s, p95 within 10 %, 80 % recovered, and back after a probe."""
        found = []
        if self.out_after is None or self.out_after > 10.0:
            found.append("not out within 10 s")
        if self.p95_ratio is None or self.p95_ratio > 1.1:
            found.append("p95 not within 10 % of healthy")
        if self.recovered is None or self.recovered < 0.8:
            found.append("less than 80 % of the lost goodput recovered")
        if self.back_after is None or self.back_after < 0.0 or "probes" not in self.ended:
            found.append("not back after the end of the fault, by a probe")
        if self.others:
            found.append(f"{self.others} further actions")
        return tuple(found)


def count_lost(run: LoopRun) -> int:
    """Returns the requests of the counted time that had no answer within the deadline."""
    return sum(latency > DEADLINE for latency in run.answers.between(0.0, run.times.seconds))


def compute_figures(acting: LoopRun, observing: LoopRun) -> LoopFigures:
    """Returns the figures of two runs under the same load."""
    applied, ended = acting.steps.get("applied_at"), acting.steps.get("ended_at")
    healthy = acting.answers.quantile(0.0, acting.times.fault_at, 0.95)
    lost, lost_without = count_lost(acting), count_lost(observing)
    p95 = None if applied is None else acting.answers.quantile(applied + SETTLE, acting.times.fault_end, 0.95)
    return LoopFigures(
        None if applied is None else applied - acting.times.fault_at,
        None if ended is None else ended - acting.times.fault_end,
        healthy,
        None if p95 is None else p95 / healthy,
        (lost_without - lost) / lost_without if lost_without else None,
        lost,
        lost_without,
        str(acting.action.get("ending", "")),
        acting.others,
    )


def describe_loop(target: str, acting: LoopRun, observing: LoopRun) -> str:
    """Returns events, table and figures as text."""
    before = f"{acting.times.warm_up:g} s of load before are not counted"
    lines = [f"{target}: r{SLOW_REPLICA} of three replicas is slowed down; {before}", ""]
    lines += [f"  {t:6.1f} s  {what}" for t, what in acting.events if t >= 0.0]
    lines += ["", *_list_table(acting, observing), ""]
    found = compute_figures(acting, observing)
    recovered = "-" if found.recovered is None else f"{100 * found.recovered:.0f} %"
    late = f"requests without an answer within {DEADLINE:g} s"
    lines += [
        f"  out {_show(found.out_after)} s after the fault, back {_show(found.back_after)} s after its end",
        f"  p95 while it is out: {_show(found.p95_ratio)} times the healthy {1000 * found.healthy_p95:.0f} ms",
        f"  {late}: {found.lost_acting} acting, {found.lost_observing} observing",
        f"  recovered {recovered} of the lost goodput",
    ]
    lines += [f"  SHORT: {problem}" for problem in found.problems]
    return "\n".join(lines)


def _list_table(acting: LoopRun, observing: LoopRun) -> Sequence[str]:
    applied, ended = acting.steps.get("applied_at"), acting.steps.get("ended_at")
    out = min(applied if applied is not None else acting.times.fault_end, acting.times.fault_end)
    spans = [
        ("before the fault", 0.0, acting.times.fault_at),
        ("fault, still in use", acting.times.fault_at, out),
        ("fault, taken out", out + SETTLE, acting.times.fault_end),
        ("fault over, still out", acting.times.fault_end, ended if ended is not None else acting.times.seconds),
        ("back in use", ended if ended is not None else acting.times.seconds, acting.times.seconds),
    ]
    rows = ["  span                      seconds      goodput 1/s            p95 ms"]
    rows.append("                                       acting  observing   acting  observing")
    for name, start, end in spans:
        if end - start < 1.0:
            continue
        goods = [run.answers.goodput(start, end, DEADLINE) for run in (acting, observing)]
        tails = [1000 * run.answers.quantile(start, end, 0.95) for run in (acting, observing)]
        numbers = f"{goods[0]:6.1f}  {goods[1]:9.1f}   {tails[0]:6.0f}  {tails[1]:9.0f}"
        rows.append(f"  {name:22}  {start:5.1f}-{end:5.1f}   {numbers}")
    return rows


def _show(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f}"


def draw_loop(target: str, acting: LoopRun, observing: LoopRun) -> str:
    """Returns the plot as SVG: goodput and p95 of both runs."""
    bins = [n * BIN for n in range(int(acting.times.seconds / BIN))]
    runs = {"acting": acting, "observing": observing}
    goodput = {
        name: [(t + BIN / 2, run.answers.goodput(t, t + BIN, DEADLINE)) for t in bins] for name, run in runs.items()
    }
    tails = {
        name: [
            (t + BIN / 2, 1000 * value)
            for t in bins
            if math.isfinite(value := run.answers.quantile(t - BIN, t + 2 * BIN, 0.95))
        ]
        for name, run in runs.items()
    }
    spans = [(acting.times.fault_at, acting.times.fault_end, "fault")]
    applied, ended = acting.steps.get("applied_at"), acting.steps.get("ended_at")
    if applied is not None:
        spans.append((applied, ended if ended is not None else acting.times.seconds, " " * 12 + "taken out"))
    panels = [
        Panel(f"requests per second answered within {DEADLINE:g} s", goodput, spans),
        Panel("95th percentile of the latency, ms", tails, spans),
    ]
    return draw_plot(f"{target}: one of three replicas slowed to a fifth", panels, acting.times.seconds)
