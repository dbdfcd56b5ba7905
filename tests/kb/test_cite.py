"""Sources as others cite them."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.kb.citations import author_names, bibtex, byline, csl_json, source_url
from skewscope.kb.loader import catalogue
from skewscope.kb.model import Source

SOURCES = tuple(catalogue().sources.values())


def source(**fields):
    return Source(
        **{
            "id": "lin2025whatif",
            "title": "What if",
            "authors": "Ada Lin, Bo Wang, Cy Gao",
            "year": 2025,
            "kind": "paper",
            "seen": "full text",
            "locator": "arXiv:2505.05713; OSDI'25",
            "venue": "USENIX OSDI 2025",
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("locator", "found"),
    [
        ("arXiv:2505.05713; OSDI'25", "https://arxiv.org/abs/2505.05713"),
        ("arXiv:2406.04594v2; HPCA'25", "https://arxiv.org/abs/2406.04594"),
        ("doi:10.1145/3721145.3725780; ICS'25", "https://doi.org/10.1145/3721145.3725780"),
        ("https://github.com/a/b/issues/1", "https://github.com/a/b/issues/1"),
        ("github.com/NVIDIA/TensorRT-LLM#17429", "https://github.com/NVIDIA/TensorRT-LLM/issues/17429"),
        ("blog.sflow.com/2025/10", "https://blog.sflow.com/2025/10"),
        ("SIGCOMM'16", ""),
        ("docs.nvidia.com/ai-enterprise ... appendix", ""),
        ("javascript:alert(1)", ""),
    ],
)
def test_a_locator_that_is_an_address_can_be_opened(locator, found):
    assert source_url(source(locator=locator)) == found


@pytest.mark.parametrize(
    ("text", "names", "short"),
    [
        ("Ada Lin", ("Ada Lin",), "Lin"),
        ("Ada Lin, Bo Wang", ("Ada Lin", "Bo Wang"), "Lin and Wang"),
        ("Ada Lin, Bo Wang, Cy Gao", ("Ada Lin", "Bo Wang", "Cy Gao"), "Lin et al."),
        ("Javed I. Khan; Henry Uwabor Moye", ("Javed I. Khan", "Henry Uwabor Moye"), "Khan and Moye"),
        ("Biao Sun et al. (Alibaba)", ("Biao Sun", "others"), "Sun et al."),
        ("Ada Lin, et al., Cy Gao", ("Ada Lin", "Cy Gao", "others"), "Lin et al."),
        ("{Llama Team, AI at Meta}", ("Llama Team, AI at Meta",), "Llama Team, AI at Meta"),
        ("(issue thread)", (), "Paper"),
        ("(not given)", (), "Paper"),
    ],
)
def test_authors_are_told_one_by_one_and_in_short(text, names, short):
    one = source(authors=text)
    assert author_names(one) == names
    assert byline(one) == short


def test_an_entry_of_bibtex_has_what_a_bibliography_needs():
    assert bibtex([source()]) == (
        "@inproceedings{lin2025whatif,\n"
        "  author = {Ada Lin and Bo Wang and Cy Gao},\n"
        "  title = {{What if}},\n"
        "  booktitle = {USENIX OSDI 2025},\n"
        "  year = {2025},\n"
        "  eprint = {2505.05713},\n"
        "  eprinttype = {arxiv},\n"
        "  url = {https://arxiv.org/abs/2505.05713},\n"
        "  note = {Seen: full text.},\n"
        "}\n"
    )


def balanced(text: str) -> bool:
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", text):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_no_text_breaks_an_entry(title, venue):
    text = bibtex([source(title=title.replace("\n", " "), venue=venue.replace("\n", " "), locator=venue)])
    assert balanced(text.replace("\\\\", ""))
    assert text.startswith("@")
    assert text.endswith("}\n")


def test_every_source_is_cited_in_both_forms():
    keys = re.findall(r"^@\w+\{(\w+),$", bibtex(SOURCES), re.MULTILINE)
    items = json.loads(csl_json(SOURCES))
    assert keys == [item["id"] for item in items] == [one.id for one in SOURCES]
    assert all(item["title"] and item["type"] and item["issued"]["date-parts"][0][0] > 1900 for item in items)


def test_an_organisation_is_one_name_and_not_a_person():
    (item,) = json.loads(csl_json([source(authors="{Llama Team, AI at Meta}")]))
    assert item["author"] == [{"literal": "Llama Team, AI at Meta"}]
    assert "author = {{Llama Team, AI at Meta}}," in bibtex([source(authors="{Llama Team, AI at Meta}")])


def test_bibtex_is_read_by_a_program_that_is_not_ours():
    pybtex = pytest.importorskip("pybtex.database", reason="pybtex is not installed")
    found = pybtex.parse_string(bibtex(SOURCES), "bibtex")
    assert list(found.entries) == [one.id for one in SOURCES]
    lin = found.entries["lin2025whatif"]
    assert len(lin.persons["author"]) == len(author_names(next(s for s in SOURCES if s.id == "lin2025whatif")))
