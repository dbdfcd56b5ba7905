"""Sources as others cite them: addresses, BibTeX, CSL-JSON."""

import json
import re
from collections.abc import Iterable
from typing import Any

from skewscope.kb.model import Source

NOBODY = re.compile(r"\((issue thread|not given)\)")
"""What stands where nobody is named."""

_addresses = (
    (re.compile(r"arXiv:(\d{4}\.\d{4,5})(?:v\d+)?"), "https://arxiv.org/abs/{}"),
    (re.compile(r"doi:(10\.\d{4,}/[^\s;,]+)"), "https://doi.org/{}"),
    (re.compile(r"(https?://[^\s;,<>\"]+)"), "{}"),
    (re.compile(r"github\.com/([\w.-]+/[\w.-]+)#(\d+)"), "https://github.com/{}/issues/{}"),
    (re.compile(r"^((?:[\w-]+\.)+[a-z]{2,}/[^\s;,<>\"]+)$"), "https://{}"),
)


def address(source: Source) -> str:
    """Where a source can be opened; '' where its locator is no address."""
    for pattern, made in _addresses:
        if match := pattern.search(source.locator):
            return made.format(*match.groups())
    return ""


def arxiv(source: Source) -> str:
    """Its id at arXiv, or ''."""
    match = _addresses[0][0].search(source.locator)
    return match[1] if match else ""


def doi(source: Source) -> str:
    """Its DOI, or ''."""
    match = _addresses[1][0].search(source.locator)
    return match[1] if match else ""


def authors(source: Source) -> tuple[str, ...]:
    """Who wrote it, each name by itself; the last is "others" where the list is cut; () where nobody is named."""
    text = source.authors
    if NOBODY.fullmatch(text):
        return ()
    if text.startswith("{"):
        return (text.strip("{}"),)
    text, cut = re.subn(r",?\s*\bet al\.?", "", re.sub(r"\s*\([^)]*\)", "", text))
    names = [name.strip() for name in re.split(r"[,;]", text) if name.strip()]
    return (*names, "others") if cut else tuple(names)


def byline(source: Source) -> str:
    """The authors in a few words: `Lin et al.`, `Gao and Wang`; what it is, where nobody is named."""
    names = authors(source)
    if not names:
        return source.kind.capitalize()
    last = [name if _is_group(source) else name.split()[-1] for name in names]
    if len(last) > 2 or last[-1] == "others":
        return f"{last[0]} et al."
    return " and ".join(last)


def _is_group(source: Source) -> bool:
    return source.authors.startswith("{")


# BibTeX

_special = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    **{c: f"\\{c}" for c in "&%$#_"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def bibtex(sources: Iterable[Source]) -> str:
    """Entries for BibTeX and biber, in the order given; UTF-8."""
    return "\n".join(map(_entry, sources))


def _entry(source: Source) -> str:
    kind = _bibtex_kind(source)
    names = authors(source)
    fields = {
        "author": " and ".join(f"{{{_tex(name)}}}" if _is_group(source) else _tex(name) for name in names),
        # Braces keep the capitals of GPU and RDMA, whatever the style does to titles.
        "title": f"{{{_tex(source.title)}}}",
        "booktitle" if kind == "inproceedings" else "howpublished": _tex(source.venue),
        "year": str(source.year),
        "eprint": arxiv(source),
        "eprinttype": "arxiv" if arxiv(source) else "",
        "doi": doi(source),
        # An address is taken as it is: biber and url.sty escape it themselves.
        "url": address(source).translate(_url),
        "note": _tex(_note(source)),
    }
    told = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@{kind}{{{source.id},", *told, "}", ""])


_url = str.maketrans({"{": "%7B", "}": "%7D", "\\": "%5C"})


def _bibtex_kind(source: Source) -> str:
    return (
        "inproceedings" if source.kind == "paper" and source.venue and not source.venue.startswith("arXiv") else "misc"
    )


def _note(source: Source) -> str:
    """How it was seen belongs to the citation: not everything here was read in full."""
    where = "" if address(source) else f"{source.locator}. "
    return f"{where}Seen: {source.seen}."


def _tex(text: str) -> str:
    return "".join(_special.get(c, c) for c in text)


# CSL-JSON


def csl(sources: Iterable[Source]) -> str:
    """What citation managers and pandoc read."""
    return json.dumps([_item(source) for source in sources], ensure_ascii=False, indent=2) + "\n"


_csl_kinds = {"paper": "article", "operator report": "webpage", "documentation": "webpage", "talk": "speech"}


def _item(source: Source) -> dict[str, Any]:
    people = [{"literal": name} if _is_group(source) or name == "others" else _person(name) for name in authors(source)]
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
        "number": f"arXiv:{arxiv(source)}" if arxiv(source) else "",
        "DOI": doi(source),
        "URL": address(source),
        "note": _note(source),
    }
    return {name: value for name, value in found.items() if value}


def _person(name: str) -> dict[str, str]:
    given, _, family = name.rpartition(" ")
    return {"family": family, "given": given} if given else {"literal": family}
