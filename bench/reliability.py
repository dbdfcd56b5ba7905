"""Whether probabilities match what is right on labelled telemetry, each origin judged by a fit to all others.

    python -m bench.reliability ORIGIN=FOLDER[,FOLDER]... [--simulate SEED] [--keep FILE] [--write PAGE]
                                [--calibrate FILE]

A folder is a recording with `labels.json`, or files in hand with `expect.yaml`; several folders of one origin are
separated by commas, and an origin may be given again. `--simulate` adds generated telemetry, which is part of each fit
and is not judged. `--keep` stores the samples, and those that are there are not made again. `--calibrate` writes the
calibration that is fitted to all. The page has the two curves.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import yaml

from skewscope.adapters.assessment.assessment import SIMULATED
from skewscope.adapters.assessment.reliability import (
    Outcomes,
    RootSample,
    curve_lines,
    fit_posterior,
    leave_out,
    root_samples,
)
from skewscope.adapters.assessment.runner import (
    ANYWHERE,
    AssessmentRun,
    FaultLabel,
    replay_labelled_recording,
    run_all,
    to_reported_incidents,
)
from skewscope.adapters.assessment.scenarios import single_fault_scenarios
from skewscope.adapters.simulator.faults.registry import fault_models
from skewscope.engine.incidents.confidence import load_calibration
from skewscope.engine.model.incident import parse_incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import load_strict

PROGRAM = (sys.executable, "-c", "from skewscope.tui.cli.main import cli; cli()")
LONG = 1e9
"""Seconds before and after the start, as the time of a label of files in hand."""


def run_folder(folder: Path) -> AssessmentRun:
    """Returns the incidents and labels of a labelled recording, or of files in hand."""
    return run_in_hand(folder) if (folder / "expect.yaml").is_file() else replay_labelled_recording(folder)


def run_in_hand(folder: Path) -> AssessmentRun:
    """Diagnoses files in hand, as a person does; what they are of holds for all of their time."""
    expected = yaml.safe_load((folder / "expect.yaml").read_text(encoding="utf-8"))
    arguments = (*PROGRAM, "diagnose", *expected["files"], "--json", *expected.get("options", ()))
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    incidents = [parse_incident(one) for one in told if "condition" in one]
    names = [name for name in expected["any_of"] if name in catalogue().conditions]
    labels = ()
    if expected["answer"] == "finding" and names:
        labels = (FaultLabel(names[0], "", (ANYWHERE,), -LONG, LONG, or_else=tuple(names[1:])),)
    start = min((one.opened_at for one in incidents), default=0.0)
    return AssessmentRun(folder.name, 1, 1.0, to_reported_incidents(incidents, start, Topology()), labels)


def run_simulated(seed: int) -> list[AssessmentRun]:
    """Runs a medium fault of each condition that rules diagnose."""
    named = sorted({rule.condition for rule in load_strict(catalogue()).values()} & set(fault_models()))
    return run_all(single_fault_scenarios(named, seed, strengths=("medium",)), 1, None, 16)


def format_page(left_out: Mapping[str, tuple[Outcomes, Outcomes]]) -> str:
    """Returns the page with both curves."""
    return "\n".join(_page_lines(left_out)) + "\n"


def _page_lines(left_out: Mapping[str, tuple[Outcomes, Outcomes]]) -> Iterator[str]:
    yield from ("# Reliability", "", "<!-- Written by `python -m bench.reliability`. -->", "")
    yield from (
        "Stated probabilities on labelled telemetry that others recorded, on real jobs and on files in hand. Each",
        "origin is judged by a calibration that was fitted to all others, beginning with what was fitted to simulated",
        "telemetry. A first candidate is the likeliest class of conditions which the labels do not tell apart. All",
        "incidents that tell the same of one fault of an origin count as one together: the faults of a column.",
    )
    yield ""
    for n, title in enumerate(("Incidents", "First candidates")):
        yield from curve_lines(title, [one for both in left_out.values() for one in both[n]])
    yield from ("## Origins", "", "| origin | incidents | right | stated | first candidates | right | stated |")
    yield "|---|---|---|---|---|---|---|"
    for origin, both in sorted(left_out.items()):
        yield f"| {origin} | {' | '.join(_counts(some) for some in both)} |"


def _counts(outcomes: Outcomes) -> str:
    stated = sum(share for share, *_ in outcomes) / max(len(outcomes), 1)
    return f"{len(outcomes)} | {sum(right for _, right, _ in outcomes)} | {stated:.2f}" if outcomes else "0 | |"


def _load(path: Path | None) -> dict[str, list[RootSample]]:
    if path is None or not path.is_file():
        return {}
    kept = json.loads(path.read_text(encoding="utf-8"))
    return {
        key: [RootSample(**{name: tuple(v) if isinstance(v, list) else v for name, v in one.items()}) for one in some]
        for key, some in kept.items()
    }


def _collect(folders: Sequence[str], seed: int | None, kept: Path | None) -> dict[str, list[RootSample]]:
    """Returns the samples by origin; each folder that was run is stored at once."""
    known, by_folder = load_calibration(), _load(kept)
    named = [each.partition("=") for each in folders]
    wanted = [(origin, folder) for origin, _, some in named for folder in some.split(",")]
    wanted += [] if seed is None else [(SIMULATED, str(seed))]
    by_origin: dict[str, list[RootSample]] = {}
    for origin, folder in wanted:
        key = f"{origin}={folder}"
        if key not in by_folder:
            runs = run_simulated(int(folder)) if origin == SIMULATED else [run_folder(Path(folder))]
            by_folder[key] = list(root_samples(runs, known))
            if (Path(folder) / "expect.yaml").is_file():
                # Files in hand are of one fault each, and of no other origin than themselves.
                by_folder[key] = [replace(one, fault=f"{folder} {one.fault}") for one in by_folder[key]]
            print(key, len(by_folder[key]), file=sys.stderr, flush=True)
            if kept is not None:
                kept.write_text(json.dumps({name: [asdict(one) for one in some] for name, some in by_folder.items()}))
        by_origin.setdefault(origin, []).extend(by_folder[key])
    return by_origin


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="ORIGIN=FOLDER[,FOLDER]")
    parser.add_argument("--simulate", type=int, metavar="SEED")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--write", type=Path, metavar="PAGE")
    parser.add_argument("--calibrate", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    by_origin = _collect(options.folders, options.simulate, options.keep)
    page = format_page(leave_out(by_origin, load_calibration(), SIMULATED))
    print(page)
    if options.write:
        options.write.write_text(page, encoding="utf-8")
    if options.calibrate:
        options.calibrate.write_text(fit_posterior(by_origin, load_calibration()).as_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
