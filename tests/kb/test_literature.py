"""The catalogue says what the fact base says: every number, every source, every doubt."""

import re

import pytest
import yaml

from skewscope.kb.loader import catalogue
from skewscope.kb.model import Condition

WORDS = {"one": "1", "two": "2", "three": "3", "five": "5", "eight": "8", "ten": "10", "twelve": "12", "fourteen": "14"}
IN_WORDS = {
    "a quarter": "25",
    "hundreds of": "100",
    "the worst hundredth": "1",
    "twice": "2",
    **WORDS,
}

KINDS = {"doc": "documentation", "issue": "operator report", "web": "web page"}
"""What the fact base calls kinds of sources, where it does so in two ways."""

CORRECTED = frozenset(
    {
        # The merged repair told another cause than the first account of the thread.
        ("software-false-alarm", "daqiri126"),
        # Its model is dense: it shows uneven replicas, and no barrier of experts.
        ("attention-dp-imbalance", "vllm36748"),
    }
)
"""Claims of the fact base, by condition and source, that a second reading of the source moved to another condition."""

TITLES_FOUND = frozenset({"li2026pred", "stalloc2025"})
"""Sources whose titles were unknown when the fact base was written."""


@pytest.fixture(scope="module")
def facts(shared):
    path = shared / "facts" / "literature.yaml"
    if not path.is_file():
        pytest.skip(f"no fact base at {path}")
    return yaml.load(path.read_text(), Loader=yaml.CSafeLoader)


@pytest.fixture(scope="module")
def known(facts):
    """The fact base's conditions that the catalogue holds, by id."""
    found = {one["id"]: one for one in facts["conditions"] if one["id"] in catalogue().conditions}
    assert len(found) == len(catalogue().conditions)
    return found


def numbers(text: str) -> set[str]:
    return {
        number.strip(",.")
        for number in re.findall(
            r"(?<![A-Za-z\d])\d[\d,.]*", text.replace("13k", "13000").replace("v0.", "0.").replace(",", "")
        )
    }


def in_words(text: str) -> set[str]:
    return {number for words, number in IN_WORDS.items() if re.search(rf"\b{words}\b", text.lower())}


def ours(one: Condition, source: str) -> str:
    return " ".join(f"{claim.text} {claim.scale}" for claim in one.impacts if claim.source == source)


def still_true(fact) -> list[dict[str, str]]:
    return [claim for claim in fact["impacts"] if (fact["id"], claim["source"]) not in CORRECTED]


def test_every_claim_is_there_with_its_source_and_how_it_was_seen(known):
    for id_, fact in known.items():
        claims = {(claim.source, claim.seen) for claim in catalogue().conditions[id_].impacts}
        assert {(claim["source"], claim["seen"]) for claim in still_true(fact)} <= claims, id_


def test_every_number_of_a_claim_is_there(known):
    for id_, fact in known.items():
        for claim in still_true(fact):
            said = " ".join(ours(catalogue().conditions[id_], claim.get(name, "")) for name in ("source", "source2"))
            assert numbers(claim["claim"]) <= numbers(said) | in_words(said), (id_, claim)


def test_grades_kinds_and_marks_of_doubt_are_those_of_the_fact_base(known):
    for id_, fact in known.items():
        one = catalogue().conditions[id_]
        assert one.grade == fact["evidence_grade"], id_
        assert one.kind == fact["kind"], id_
        assert one.paper_row == fact["paper_row"]["status"], id_


def test_every_look_alike_is_there_at_one_of_its_ends(known):
    for id_, fact in known.items():
        one = catalogue().conditions[id_]
        have = {look.condition for look in (*one.lookalikes, *one.lookalikes_outside)}
        assert {look["other"] for look in fact["lookalikes"]} <= have, id_


def test_what_is_said_to_be_from_the_literature_is_there(known):
    for id_, one in catalogue().conditions.items():
        for look in one.lookalikes:
            ends = {id_: look.condition, look.condition: id_}
            told = any(other["other"] == b for a, b in ends.items() for other in known[a]["lookalikes"])
            assert told or look.basis.startswith(("judgement: ", "source: ")), (id_, look)


def test_a_mitigation_that_somebody_measured_is_among_those_of_its_condition(known):
    for id_, fact in known.items():
        helps = [catalogue().mitigations[m] for m in catalogue().conditions[id_].mitigations]
        cited = {claim.source for one in helps for claim in one.claims}
        assert {one["source"] for one in fact["mitigations"] if (id_, one["source"]) not in CORRECTED} <= cited, id_


def test_what_a_mitigation_claims_was_seen_as_the_fact_base_says(facts):
    seen: dict[str, set[str]] = {}
    for fact in facts["conditions"]:
        for item in (*fact["impacts"], *fact["mitigations"]):
            seen.setdefault(item["source"], set()).add(item["seen"])
            seen.setdefault(item.get("source2", item["source"]), set()).add(item["seen"])
    for id_, source in facts["sources"].items():
        seen.setdefault(id_, {source["seen"]})
    for one in catalogue().mitigations.values():
        assert all(claim.seen in seen[claim.source] for claim in one.claims), one.id


def test_sources_are_those_of_the_fact_base(facts):
    """Sources that were added later stand in the catalogue alone, and so do the manuals of tools."""
    both = catalogue().sources.keys() & facts["sources"].keys()
    assert len(both) > 0.9 * sum(source.kind != "documentation" for source in catalogue().sources.values())
    for id_ in both:
        one, fact = catalogue().sources[id_], facts["sources"][id_]
        kind = KINDS.get(fact["kind"], fact["kind"])
        title = one.title if id_ in TITLES_FOUND else fact["title"]
        assert (one.title, one.year, one.seen, one.kind) == (title, fact["year"], fact["seen"], kind)


def test_a_dpu_sees_no_more_than_the_fact_base_grants(known):
    """Its verdict is of the best deployment without a relay."""
    order = ["not_visible", "relayed", "partial", "visible"]
    for id_, fact in known.items():
        alone = [o.verdict for o in catalogue().conditions[id_].observability if o.deployment != "dpu-relayed"]
        assert max(map(order.index, alone)) <= order.index(fact["dpu"]["verdict"]), id_


def test_signals_are_those_of_the_fact_base(shared):
    path = shared / "facts" / "signals.yaml"
    if not path.is_file():
        pytest.skip(f"no fact base at {path}")
    for fact in yaml.load(path.read_text(), Loader=yaml.CSafeLoader)["signals"]:
        one = catalogue().signals[fact["id"]]
        assert (one.unit, one.type, one.dpu_access) == (fact["unit"], fact["type"], fact["dpu_access"]), one.id
