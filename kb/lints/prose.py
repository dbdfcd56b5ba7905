"""Lints of texts."""

import re
from collections.abc import Iterator

from skewscope.kb.entry_store import CatalogueEntry
from skewscope.kb.lint import Problems, entry_lint
from skewscope.kb.yamlfile import FieldPath

_filler = re.compile(
    r"\b(may potentially|might possibly|leverag\w+|utiliz\w+|seamless\w*|cutting-edge|robustly)\b", re.IGNORECASE
)


@entry_lint("", "Say it plainly.")
def words_are_plain(entry: CatalogueEntry) -> Problems:
    """Texts contain no filler."""
    if entry.kind == "sources":
        return
    for field, text in entry.document.data.items():
        if isinstance(text, str) and (match := _filler.search(text)):
            yield entry.document.problem((field,), f"{match[0]!r}", "plain words")


PROSE_FIELDS = frozenset(("what", "cost", "effect", "undo", "verify", "text", "consequence", "unused"))
PROSE_LIST_FIELDS = {
    "why": "",
    "notes": "",
    "impacts": "text",
    "claims": "text",
    "lookalikes": "separate_by",
    "observability": "reason",
}


@entry_lint("", "Begin with a capital, end with a full stop.")
def texts_are_sentences(entry: CatalogueEntry) -> Problems:
    """Prose consists of whole sentences."""
    if entry.kind in ("sources", "signals"):
        return
    for path, text in iter_prose(entry):
        if not re.match(r"[A-Z0-9\"'(`]", text) and not text.split()[0].lower().startswith(_lower_case_names):
            yield entry.document.problem(path, f"{text[:40]!r}", "a sentence that begins with a capital")
        if text[-1] not in ".?!":
            yield entry.document.problem(path, f"{text[-40:]!r}", "a sentence that ends with a full stop")


_lower_case_names = (
    "nvlink",
    "vllm",
    "sglang",
    "iommu",
    "xmit",
    "port_",
    "cudaipc",
    "cuda_ipc",
    "mlx5",
    "p2p",
    "nvidia",
    "node_",
)


def iter_prose(entry: CatalogueEntry) -> Iterator[tuple[FieldPath, str]]:
    """Yields every prose text of an entry with its path."""
    for field, value in entry.document.data.items():
        if field in PROSE_FIELDS and isinstance(value, str):
            yield (field,), value
        elif field in PROSE_LIST_FIELDS and isinstance(value, list):
            key = PROSE_LIST_FIELDS[field]
            yield from (
                ((field, n, key) if key else (field, n), item[key] if key else item)
                for n, item in enumerate(value)
                if not key or key in item
            )


@entry_lint("conditions", "Move the number into a claim with its source.")
def numbers_are_claims(entry: CatalogueEntry) -> Problems:
    """`what` and `why` of a condition have no measured numbers: those are claims with sources."""
    for path, text in iter_prose(entry):
        if path[0] in ("what", "why") and (match := _measurement.search(text)):
            yield entry.document.problem(path, f"{match[0]!r}", "no measured number")


_measurement = re.compile(r"\d[\d.,]*\s?(%|times|ms\b|us\b|GB/s|GPU-hours)")
