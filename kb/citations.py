"""Formats sources as citations: addresses, BibTeX, CSL-JSON."""

import json
import re
from collections.abc import Iterable
from typing import Any

from skewscope.kb.model import Source

NO_AUTHOR = re.compile(r"\((issue thread|not given)\)")
"""The author field of works without named authors."""

_url_patterns = (
    (re.compile(r"arXiv:(\d{4}\.\d{4,5})(?:v\d+)?"), "https://arxiv.org/abs/{}"),
    (re.compile(r"doi:(10\.\d{4,}/[^\s;,]+)"), "https://doi.org/{}"),
    (re.compile(r"(https?://[^\s;,<>\"]+)"), "{}"),
    (re.compile(r"github\.com/([\w.-]+/[\w.-]+)#(\d+)"), "https://github.com/{}/issues/{}"),
    (re.compile(r"^((?:[\w-]+\.)+[a-z]{2,}/[^\s;,<>\"]+)$"), "https://{}"),
)


def source_url(source: Source) -> str:
    """Returns the address of a source; '' where its locator is none."""
    for pattern, made in _url_patterns:
        if match := pattern.search(source.locator):
            return made.format(*match.groups())
    return ""


def arxiv_id(source: Source) -> str:
    """Returns the arXiv id of a source, or ''."""
    match = _url_patterns[0][0].search(source.locator)
    return match[1] if match else ""


def doi(source: Source) -> str:
    """Returns the DOI of a source, or ''."""
    match = _url_patterns[1][0].search(source.locator)
    return match[1] if match else ""


def author_names(source: Source) -> tuple[str, ...]:
    """Returns the names of the authors; the last is "others" where the list is cut; () without names."""
    text = source.authors
    if NO_AUTHOR.fullmatch(text):
        return ()
    if text.startswith("{"):
        return (text.strip("{}"),)
    text, cut = re.subn(r",?\s*\bet al\.?", "", re.sub(r"\s*\([^)]*\)", "", text))
    names = [name.strip() for name in re.split(r"[,;]", text) if name.strip()]
    return (*names, "others") if cut else tuple(names)


def byline(source: Source) -> str:
    """Returns the authors in short form: `Lin et al.`, `Gao and Wang`; the kind of work without names."""
    names = author_names(source)
    if not names:
        return source.kind.capitalize()
    last = [name if _has_corporate_author(source) else name.split()[-1] for name in names]
    if len(last) > 2 or last[-1] == "others":
        return f"{last[0]} et al."
    return " and ".join(last)


def _has_corporate_author(source: Source) -> bool:
    return source.authors.startswith("{")


# BibTeX

_tex_escapes = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    **{c: f"\\{c}" for c in "&%$#_"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def bibtex(sources: Iterable[Source]) -> str:
    """Returns entries for BibTeX and biber, in the given order; UTF-8."""
    return "\n".join(map(_bibtex_entry, sources))


def _bibtex_entry(source: Source) -> str:
    kind = _bibtex_kind(source)
    names = author_names(source)
    fields = {
        "author": " and ".join(
            f"{{{_escape_tex(name)}}}" if _has_corporate_author(source) else _escape_tex(name) for name in names
        ),
        # Braces keep the capitals of GPU and RDMA in any style.
        "title": f"{{{_escape_tex(source.title)}}}",
        "booktitle" if kind == "inproceedings" else "howpublished": _escape_tex(source.venue),
        "year": str(source.year),
        "eprint": arxiv_id(source),
        "eprinttype": "arxiv" if arxiv_id(source) else "",
        "doi": doi(source),
        # An address is taken as it is: biber and url.sty escape it themselves.
        "url": source_url(source).translate(_url_escapes),
        "note": _escape_tex(_seen_note(source)),
    }
    told = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@{kind}{{{source.id},", *told, "}", ""])


_url_escapes = str.maketrans({"{": "%7B", "}": "%7D", "\\": "%5C"})


def _bibtex_kind(source: Source) -> str:
    return (
        "inproceedings" if source.kind == "paper" and source.venue and not source.venue.startswith("arXiv") else "misc"
    )


def _seen_note(source: Source) -> str:
    """Returns how the work was seen, for the note: not every work was read in full."""
    where = "" if source_url(source) else f"{source.locator}. "
    return f"{where}Seen: {source.seen}."


def _escape_tex(text: str) -> str:
    return "".join(_tex_escapes.get(c, c) for c in text)


# CSL-JSON


def csl_json(sources: Iterable[Source]) -> str:
    """Returns sources as CSL-JSON, for citation managers and pandoc."""
    return json.dumps([_csl_item(source) for source in sources], ensure_ascii=False, indent=2) + "\n"


_csl_kinds = {"paper": "article", "operator report": "webpage", "documentation": "webpage", "talk": "speech"}


def _csl_item(source: Source) -> dict[str, Any]:
    people = [
        {"literal": name} if _has_corporate_author(source) or name == "others" else _csl_name(name)
        for name in author_names(source)
    ]
    venue = source.venue
    found: dict[str, Any] = {
        "id": source.id,
        "type": "paper-conference"
        if _bibtex_kind(source) == "inproceedings"
        else _csl_kinds.get(source.kind, "webpage"),
        "title": source.title,
        "author": people,
        "issued": {"date-parts": [[source.year]]},
        "container-title": venue,
        "number": f"arXiv:{arxiv_id(source)}" if arxiv_id(source) else "",
        "DOI": doi(source),
        "URL": source_url(source),
        "note": _seen_note(source),
    }
    return {name: value for name, value in found.items() if value}


def _csl_name(name: str) -> dict[str, str]:
    given, _, family = name.rpartition(" ")
    return {"family": family, "given": given} if given else {"literal": family}
