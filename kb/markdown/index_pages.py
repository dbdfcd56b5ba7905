"""The index pages: home, lists by kind, matrix, graph, look-alikes and claims."""

from collections.abc import Iterable, Iterator, Mapping

from skewscope.kb.claims import iter_claims
from skewscope.kb.graph_formats import Subgraph
from skewscope.kb.markdown.labels import (
    DPU_CAPABILITY_LABELS,
    GRADE_DESCRIPTIONS,
    SEEN_DESCRIPTIONS,
    VERDICT_LABELS,
    format_citation,
    format_dpu_capability,
    format_entry_link,
    format_id_link,
    format_locator,
    format_seen,
    format_verdict,
)
from skewscope.kb.markdown.text import bullets, code, escape_text, link, page, section, strong, table
from skewscope.kb.matrix import ACTORS, DEPLOYMENTS, MatrixRow, count_verdicts
from skewscope.kb.model import Catalogue, Claim, Condition
from skewscope.kb.rank import RankRow, rank_conditions, strongest_claim

GROUP_TITLES: Mapping[str, str] = {
    "north-south": "North-south: between clients and the node",
    "pcie": "PCIe: inside the node",
    "east-west": "East-west: between nodes",
}
FINDING_KIND_TITLES: Mapping[str, str] = {
    "negative": "What does not work, or is wrongly believed",
    "positive": "What the network was shown to reveal",
    "separation": "Tests that separate families of conditions",
    "threshold": "Thresholds in use",
    "system": "Systems that detect",
    "gap": "What has not been measured",
}

_INTRODUCTION = """What goes wrong in machines that train and serve large language models, what it costs, what a DPU
in the node sees of it, and what helps."""
_GROUP_NOTE = """Those of the first three groups are named after the rows of the paper's tables, as recalled; the
names are to be checked against the PDF."""
_JUDGEMENT_NOTE = """What no work says is *our judgement* and marked so, with its reason: the signals of a
condition, most verdicts, causes and effects, the actor, cost, risk, undo and check of a mitigation."""
_RANK_NOTE = """The conditions with the best evidence first. All verdicts are reasoned, each with its reason on its
page; the costs were measured by others."""
_MATRIX_NOTE = """For each condition: what a DPU sees of it as the front-end NIC, as the NIC of every rail
(and not of the front end), as the root of the GPUs' PCIe, and with telemetry of GPUs and engines relayed to it; the
most that a DPU could do of any mitigation; and which actors could carry it out."""
_GRAPH_NOTE = """Each leads from a cause to what it brings about, from faults of machines and fabric on the left
to what users notice on the right. They are *our judgement*, each with its reason."""


def home_page(catalogue: Catalogue, rows: tuple[MatrixRow, ...]) -> str:
    """Returns the home page."""
    sizes = [
        f"[{len(held)} {kind}]({kind}.md)"
        for kind, held in (
            ("conditions", catalogue.conditions),
            ("symptoms", catalogue.symptoms),
            ("signals", catalogue.signals),
            ("mitigations", catalogue.mitigations),
            ("sources", catalogue.sources),
            ("findings", catalogue.findings),
            ("formats", catalogue.formats),
            ("events", catalogue.events),
        )
    ]
    return page(
        [
            "# Skews of LLM clusters",
            _INTRODUCTION,
            f"Version {code(catalogue.version)}: {', '.join(sizes)}.",
            "It follows the three questions of "
            + format_citation(catalogue, "khan2025dpu", up="")
            + ": which conditions are reported, what they cost, and which could be tracked and mitigated from a DPU.",
            section("Which, what it costs, what a DPU sees and can do", _RANK_NOTE, _rank_table(catalogue)),
            section("Where to begin", bullets(_questions())),
            section(
                "What a DPU sees",
                _verdict_count_table(rows),
                "[Condition by condition, with the actors that could help](matrix.md)",
            ),
            section("How to read it", *_legend()),
        ]
    )


def _rank_table(catalogue: Catalogue) -> str:
    rows = (
        (
            link(row.condition.name, f"conditions/{row.condition.id}.md"),
            _format_cost(row.cost, catalogue),
            strong(row.condition.grade),
            _format_sight(row),
            format_dpu_capability(row.matrix.dpu),
        )
        for row in rank_conditions(catalogue)
    )
    return table(("Condition", "Costs (strongest measurement)", "Evidence", "A DPU sees", "A DPU helps"), rows)


def _format_cost(claim: Claim | None, catalogue: Catalogue) -> str:
    if claim is None:
        return "no number known"
    return f"{escape_text(claim.text)} — {format_citation(catalogue, claim.source, up='')}"


def _format_sight(row: RankRow) -> str:
    places = ", ".join(escape_text(DEPLOYMENTS[name]) for name in row.best_places)
    return format_verdict(row.best_verdict) + (f": {places}" if places else "")


def _questions() -> Iterator[str]:
    yield "What can a DPU see of each condition, and what could mitigate it? [The matrix](matrix.md)"
    yield "What leads to what? [The causal graph](graph.md)"
    yield "Which conditions look alike, and what separates them? [Look-alikes](lookalikes.md)"
    yield "What was measured, by whom, at what scale? [Every number](claims.md)"
    yield "What does not work, and what has not been measured? [Findings](findings.md)"
    yield "What can be done? [Mitigations](mitigations.md)"
    yield "What is it called in my exporter? [Signals](signals.md)"
    yield "What is reported while no cause is known? [Symptoms](symptoms.md)"
    yield "Which files are read, and which messages are known? [Formats](formats.md), [events](events.md)"


def _legend() -> Iterator[str]:
    yield "How good the evidence for a condition is:"
    yield bullets(f"{strong(grade)}: {text}" for grade, text in GRADE_DESCRIPTIONS.items())
    yield "What a DPU sees of it in each place where one may stand:"
    yield bullets(f"{shown}: {text}" for shown, text in VERDICT_LABELS.values())
    yield "What a DPU could do of a mitigation:"
    yield bullets(f"{shown}: {text}" for shown, text in DPU_CAPABILITY_LABELS.values())
    yield "How the work behind a number was seen:"
    yield bullets(f"{format_seen(name)}: {text}" for name, text in SEEN_DESCRIPTIONS.items())
    yield _JUDGEMENT_NOTE


def _verdict_count_table(rows: tuple[MatrixRow, ...]) -> str:
    by = count_verdicts(rows)
    body = (
        (escape_text(DEPLOYMENTS[name]), *(str(by[name].get(known, 0)) for known in VERDICT_LABELS))
        for name in DEPLOYMENTS
    )
    return table(("DPU as or with", *(shown for shown, _ in VERDICT_LABELS.values())), body)


def matrix_page(catalogue: Catalogue, rows: tuple[MatrixRow, ...]) -> str:
    """Returns the visibility matrix, by group."""
    by = count_verdicts(rows)
    could = ", ".join(f"{by['dpu'].get(name, 0)} {shown}" for name, (shown, _) in DPU_CAPABILITY_LABELS.items())
    return page(
        [
            "# What a DPU sees, and which actors could help",
            _MATRIX_NOTE,
            _verdict_count_table(rows),
            f"Of {len(rows)} conditions, a DPU could do something about: {could}.",
            *(section(_group_title(group), _matrix_table(held, catalogue)) for group, held in _group_rows(rows)),
        ]
    )


def _group_rows(rows: Iterable[MatrixRow]) -> list[tuple[str, list[MatrixRow]]]:
    found: dict[str, list[MatrixRow]] = {}
    for row in rows:
        found.setdefault(row.condition.group, []).append(row)
    return list(found.items())


def _group_title(name: str) -> str:
    return GROUP_TITLES.get(name, name.capitalize())


def _matrix_table(rows: Iterable[MatrixRow], catalogue: Catalogue) -> str:
    heads = (
        "Condition",
        "Front-end NIC",
        "Every rail",
        "PCIe root",
        "Relayed",
        "DPU helps",
        "Carried out by",
        "Costs",
        "Evidence",
    )
    return table(heads, (_matrix_row(row, catalogue) for row in rows))


def _matrix_row(row: MatrixRow, catalogue: Catalogue) -> tuple[str, ...]:
    actors = "; ".join(
        f"{escape_text(ACTORS[actor])}: {', '.join(format_id_link('mitigations', id_, up='') for id_ in ids)}"
        for actor, ids in row.actors.items()
    )
    return (
        link(row.condition.name, f"conditions/{row.condition.id}.md"),
        *(format_verdict(row.verdicts.get(name, "")) for name in DEPLOYMENTS),
        format_dpu_capability(row.dpu),
        actors or "none yet",
        _format_cost(strongest_claim(row.condition), catalogue),
        strong(row.condition.grade),
    )


def conditions_index(rows: tuple[MatrixRow, ...], rules: Mapping[str, tuple[str, ...]]) -> str:
    """Returns all conditions by group."""
    return page(
        [
            "# Conditions",
            _GROUP_NOTE,
            *(section(_group_title(group), _condition_table(held, rules)) for group, held in _group_rows(rows)),
        ]
    )


def _condition_table(rows: Iterable[MatrixRow], rules: Mapping[str, tuple[str, ...]]) -> str:
    heads = ("Condition", "Id", "Scope", "Evidence", "Best seen", "Rule")
    return table(heads, (_condition_row(row.condition, rules) for row in rows))


def _condition_row(c: Condition, rules: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    best = min((o.verdict for o in c.observability), key=list(VERDICT_LABELS).index, default="")
    none = c.without_rule.status if c.without_rule else "none"
    return (
        link(c.name, f"conditions/{c.id}.md"),
        code(c.id),
        escape_text(", ".join(c.scope)),
        strong(c.grade),
        format_verdict(best),
        "yes" if rules.get(c.id) else escape_text(none),
    )


def signals_index(catalogue: Catalogue, used: Mapping[str, int]) -> str:
    """Returns all signals by the first part of their ids."""
    families: dict[str, list[tuple[str, ...]]] = {}
    for s in catalogue.signals.values():
        row = (
            format_id_link("signals", s.id, up=""),
            escape_text(s.name),
            code(s.unit),
            escape_text(s.entity),
            escape_text(s.dpu_access),
            str(used.get(s.id, 0)),
        )
        families.setdefault(s.id.split(".", maxsplit=1)[0], []).append(row)
    heads = ("Signal", "What it is", "Unit", "Of each", "Access from a DPU", "Conditions")
    return page(
        [
            "# Signals",
            "What can be measured. Each has the names that exporters give it.",
            *(section(name, table(heads, held)) for name, held in families.items()),
        ]
    )


def symptoms_index(catalogue: Catalogue) -> str:
    """Returns all symptoms."""
    shown: dict[str, int] = {}
    for s in catalogue.signals.values():
        if s.judged and s.judged.symptom:
            shown[s.judged.symptom] = shown.get(s.judged.symptom, 0) + 1
    rows = (
        (link(y.name, f"symptoms/{y.id}.md"), escape_text(y.what), escape_text(y.severity), str(shown.get(y.id, 0)))
        for y in catalogue.symptoms.values()
    )
    text = "What is reported as abnormal while its cause is not known."
    return page(["# Symptoms", text, table(("Symptom", "What is seen", "Severity", "Signals"), rows)])


def formats_index(catalogue: Catalogue) -> str:
    """Returns all formats by tool."""
    known = sorted(catalogue.formats.values(), key=lambda one: (one.tool.lower(), one.id))
    rows = (
        (escape_text(f.tool), link(f.name, f"formats/{f.id}.md"), code(f.command) if f.command else "") for f in known
    )
    text = "Texts that are read without a line of code: each format is one file of the catalogue."
    return page(["# Formats", text, table(("Tool", "What it writes", "Written by"), rows)])


def events_index(catalogue: Catalogue) -> str:
    """Returns all events."""
    rows = (
        (
            link(e.name, f"events/{e.id}.md"),
            escape_text(e.severity),
            escape_text(e.entity),
            ", ".join(format_entry_link(catalogue, "conditions", id_, up="") for id_ in e.conditions),
        )
        for e in catalogue.events.values()
    )
    text = "Messages of kernels, engines, libraries and schedulers that are recognised wherever a log has them."
    return page(["# Events", text, table(("Event", "Severity", "Of a", "Sign of"), rows)])


def mitigations_index(catalogue: Catalogue) -> str:
    """Returns all mitigations by actor."""
    heads = ("Mitigation", "What it does", "From a DPU", "Risk")
    parts = []
    for actor, shown in ACTORS.items():
        rows = [
            (
                link(m.name, f"mitigations/{m.id}.md"),
                escape_text(m.what),
                format_dpu_capability(m.dpu.can),
                escape_text(m.risk),
            )
            for m in catalogue.mitigations.values()
            if m.actor == actor
        ]
        parts.append(section(f"Carried out by {shown}", table(heads, rows)))
    return page(["# Mitigations", "What helps, what it risks, how it is undone and checked.", *parts])


def sources_index(catalogue: Catalogue) -> str:
    """Returns all sources, the newest first."""
    parts = []
    for year in sorted({s.year for s in catalogue.sources.values()}, reverse=True):
        rows = [
            (link(s.title, f"sources/{s.id}.md"), escape_text(s.kind), format_locator(s), format_seen(s.seen))
            for s in catalogue.sources.values()
            if s.year == year
        ]
        parts.append(section(str(year), table(("Title", "Kind", "Where", "Seen"), rows)))
    return page(["# Sources", "Each with where it can be read, and how it was seen.", *parts])


def findings_index(catalogue: Catalogue) -> str:
    """Returns all findings by kind."""
    parts = []
    for kind, title in FINDING_KIND_TITLES.items():
        rows = [
            (
                link(f.name, f"findings/{f.id}.md"),
                strong(f.value) or escape_text(f.consequence),
                format_seen(f.seen) if f.seen else "",
            )
            for f in catalogue.findings.values()
            if f.kind == kind
        ]
        heads = ("Finding", "Value" if kind == "threshold" else "What follows", "Seen")
        parts.append(section(title, table(heads, rows)))
    return page(["# Findings", "What the literature teaches beyond one condition.", *parts])


def graph_page(catalogue: Catalogue, graph: Subgraph) -> str:
    """Returns the causal graph as drawing and as text."""
    after: dict[str, list[tuple[str, str]]] = {}
    for cause, effect, why in graph.causes:
        after.setdefault(cause, []).append((effect, why))
    parts = [
        section(
            catalogue.conditions[cause].name,
            bullets(
                f"{format_entry_link(catalogue, 'conditions', id_, up='')}: {escape_text(why)}" for id_, why in links
            ),
            level=3,
        )
        for cause, links in sorted(after.items(), key=lambda item: catalogue.conditions[item[0]].name)
    ]
    return page(
        [
            "# The causal graph",
            f"{len(graph.causes)} arrows. {_GRAPH_NOTE}",
            "![The causal graph; the same edges stand in words below](graph.svg)",
            section("In words", *parts),
        ]
    )


def lookalikes_page(catalogue: Catalogue, graph: Subgraph) -> str:
    """Returns the pairs of look-alikes with the tests that separate them."""
    rows = (
        (
            format_entry_link(catalogue, "conditions", a, up=""),
            format_entry_link(catalogue, "conditions", b, up=""),
            escape_text(test),
        )
        for a, b, test in graph.lookalikes
    )
    return page(
        [
            "# Look-alikes",
            "Conditions that look alike, and the tests that separate them.",
            table(("This", "and this", "are separated by"), rows),
        ]
    )


def claims_page(catalogue: Catalogue) -> str:
    """Returns every claim with its scale and source, under its entry."""
    titles = {"conditions": "What conditions cost", "mitigations": "What mitigations gained"}
    parts = []
    for kind, title in titles.items():
        rows = [
            (
                link(told.name, f"{kind}/{told.id}.md"),
                escape_text(told.claim.text),
                escape_text(told.claim.scale),
                format_citation(catalogue, told.claim.source, up=""),
                format_seen(told.claim.seen),
            )
            for told in iter_claims(catalogue)
            if told.kind == kind
        ]
        parts.append(
            section(title, table((kind.capitalize().removesuffix("s"), "Claim", "Scale", "Source", "Seen"), rows))
        )
    return page(["# Every number", "What was reported, at what scale, by whom, and how that was seen.", *parts])
