"""Exports the whole catalogue as one document for other programs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skewscope.kb.catalogue_cache import RawCatalogue
from skewscope.kb.entry_kinds import KINDS
from skewscope.kb.graph_formats import Subgraph, select_subgraph
from skewscope.kb.model import Catalogue, Condition, Signal
from skewscope.kb.problems import InputError, Problem
from skewscope.kb.schema_validation import schema

SCHEMA_ID = "urn:skewscope:kb:catalogue:2"
OLDER_SCHEMA_IDS = ("urn:skewscope:kb:catalogue:1",)
"""Documents that can be compared with, though not read in full."""
VERSION_PATTERN = r"^\d+\.\d+\.\d+$"
MAX_BYTES = 64 << 20


def export_document(written: RawCatalogue, graph: Subgraph) -> str:
    """Returns the catalogue as JSON after `document_schema`: all entries, `same_as` resolved, and the graph."""
    found = {
        "schema": SCHEMA_ID,
        "version": written["version"],
        **{kind: list(written[kind].values()) for kind in KINDS},
        "graph": {
            "causes": [{"cause": a, "effect": b, "why": why} for a, b, why in graph.causes],
            "lookalikes": [{"conditions": [a, b], "separate_by": test} for a, b, test in graph.lookalikes],
        },
    }
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def full_graph(catalogue: Catalogue) -> Subgraph:
    """Returns the graph that belongs in the document."""
    return select_subgraph(catalogue, lookalikes=True)


def read_document(path: Path) -> RawCatalogue:
    """Reads an exported catalogue.

    Raises:
        InputError: it is none.
    """
    from jsonschema import Draft202012Validator  # noqa: PLC0415

    try:
        if path.stat().st_size > MAX_BYTES:
            raise _document_error(path, f"{path.stat().st_size} bytes", f"at most {MAX_BYTES}")
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise _document_error(path, f"text that is no JSON ({str(error)[:80]})", "an exported catalogue") from None
    for wrong in Draft202012Validator(_readable_schema()).iter_errors(found):
        where = "/".join(map(str, wrong.absolute_path))
        raise _document_error(
            path, f"{wrong.message[:80]} at /{where}", "an exported catalogue, see kb export --format schema"
        )
    return {
        "version": found["version"],
        **{kind: {entry["id"]: entry for entry in found.get(kind, ())} for kind in KINDS},
    }


def _document_error(path: Path, found: str, expected: str) -> InputError:
    return InputError([Problem(str(path), 0, "", found, expected)])


def _readable_schema() -> dict[str, Any]:
    """Returns the schema of any exported catalogue: an older one lacks kinds and has entries of another shape."""
    entries = _array_schema({"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}})
    return {
        "type": "object",
        "required": ["schema", "version"],
        "properties": {
            "schema": {"enum": [*OLDER_SCHEMA_IDS, SCHEMA_ID]},
            "version": {"type": "string", "pattern": VERSION_PATTERN},
            **dict.fromkeys(KINDS, entries),
        },
    }


def document_schema() -> dict[str, Any]:
    """Returns the JSON Schema of the document, with the schemas of all kinds."""
    kinds = {kind: schema(kind.removesuffix("s")) for kind in KINDS}
    shared = {name: shape for known in kinds.values() for name, shape in known["$defs"].items()}
    # The name of a kind must not clash with a shape inside another.
    entries = {f"a_{kind.removesuffix('s')}": _strip_schema_header(known) for kind, known in kinds.items()}
    text = {"type": "string"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "Skewscope catalogue",
        "description": f"Skews of LLM clusters: {', '.join(KINDS)}, their links.",
        **_object_schema(
            {
                "schema": {"const": SCHEMA_ID},
                "version": {"type": "string", "pattern": VERSION_PATTERN},
                **{kind: _array_schema({"$ref": f"#/$defs/a_{kind.removesuffix('s')}"}) for kind in KINDS},
                "graph": _object_schema(
                    {
                        "causes": _array_schema(_object_schema({"cause": text, "effect": text, "why": text})),
                        "lookalikes": _array_schema(
                            _object_schema(
                                {
                                    "conditions": {**_array_schema(text), "minItems": 2, "maxItems": 2},
                                    "separate_by": text,
                                }
                            )
                        ),
                    }
                ),
            }
        ),
        "$defs": {**shared, **entries},
    }


def _strip_schema_header(known: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in known.items() if name not in ("$schema", "$id", "$defs")}


def _array_schema(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


def _object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


# A skeleton of Prometheus rules


MAX_SIGNALS = 6


def prometheus_rules(catalogue: Catalogue, exporters: tuple[str, ...] = ()) -> str:
    """Returns alerting rules to complete: one for each condition, which never fires before a threshold is set.

    Metric names are those of the given exporters, else the canonical ones.
    """
    out = [
        f"# Skewscope catalogue {catalogue.version}: alerting rules to fill in, one for each condition.",
        "# No rule fires before you replace +Inf by a threshold of your own; drop the terms that you do not deliver.",
        "groups:",
    ]
    held = [c for c in catalogue.conditions.values() if c.maturity != "withdrawn" and c.signature]
    for group in sorted({c.group for c in held}):
        out += [f"- name: skewscope-{group}", "  rules:"]
        for c in held:
            if c.group == group:
                out += _alert_rule(c, catalogue, exporters)
    return "\n".join([*out, ""])


def _alert_rule(c: Condition, catalogue: Catalogue, exporters: tuple[str, ...]) -> Iterator[str]:
    signals = [catalogue.signals[id_] for id_ in c.signature_signals if id_ in catalogue.signals][:MAX_SIGNALS]
    terms = [(s, term) for s in signals if (term := _promql_term(s, exporters))]
    yield f"  - alert: {''.join(part.capitalize() for part in c.id.split('-'))}"
    yield "    expr: |"
    for n, (signal, term) in enumerate(terms):
        yield f"      {'or ' if n else ''}{term} > +Inf  # {signal.id}: {signal.name} [{signal.unit}]"
    yield "    for: 1m"
    yield f"    labels: {{severity: warning, condition: {c.id}, group: {c.group}}}"
    yield "    annotations:"
    yield f"      summary: {_quote(c.name)}"
    yield f"      description: {_quote(c.what)}"
    if c.mitigations:
        yield f"      mitigations: {_quote(', '.join(c.mitigations))}"


def _promql_term(signal: Signal, exporters: tuple[str, ...]) -> str:
    names = [name for exporter in exporters for name in signal.sources.get(exporter, ())]
    known = [name for name in names if re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", name)]
    metric = known[0] if known else signal.metric
    if signal.type == "histogram":
        return f"histogram_quantile(0.95, sum by (le, node) (rate({metric}_bucket[1m])))"
    return f"rate({metric}[1m])" if signal.type == "counter" else metric


def _quote(text: str) -> str:
    """Quotes a text for YAML, without Prometheus template marks."""
    return json.dumps(text.replace("{{", "{ {"), ensure_ascii=False)
