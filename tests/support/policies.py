"""Policies, facts and programs for the tests of policies and matchers."""

import json
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from skewscope.engine.advice.advice import Fact, Program, build_fact
from skewscope.engine.advice.policy import compile_policies
from skewscope.engine.model.incident import SEVERITIES
from skewscope.kb import yamlfile
from skewscope.kb.problems import InputError
from skewscope.rules.policy import Policy, parse

CONDITIONS = ["late", "lossy", "full", "blind"]


def policy(**fields: Any) -> Policy:
    """Returns a policy from its fields, with default advice."""
    if "derive" not in fields:
        fields.setdefault("advise", {"mitigation": "rest", "why": "It is the thing to do."})
        fields.setdefault("work", "both")
    return parse(yamlfile.parse(json.dumps(fields), "p.yaml"))


def written(text: str) -> Policy:
    """Returns a policy from its YAML."""
    return parse(yamlfile.parse(text, "p.yaml"))


def program(*policies: Policy) -> Program:
    """Returns compiled policies."""
    return compile_policies(policies)


def diagnosis(condition: str, entity: str, severity: str = "warning", confidence: float = 0.8) -> Fact:
    """Returns the fact of a diagnosis."""
    values = {"severity": severity, "confidence": confidence, "coverage": 1.0, "scope": "rank", "moves": 0, "error": 0}
    return build_fact("diagnosis", entity, condition, values)


def topology(entity: str, members: int = 4) -> Fact:
    """Returns the fact of an entity's place."""
    values = {
        "parallelism": "tensor-parallel",
        "members": members,
        "nodes": 4,
        "siblings": 1,
        "rails": 1,
        "front_end": "no",
    }
    return build_fact("topology", entity, values=values)


limits = st.sampled_from(["at_least", "at_most", "above", "below", "not"])
severity_asks = st.one_of(
    st.sampled_from(SEVERITIES),
    st.lists(st.sampled_from(SEVERITIES), min_size=1, max_size=2, unique=True),
    st.builds(lambda op, v: {op: v}, limits, st.sampled_from(SEVERITIES)),
)
numbers = st.sampled_from([0.2, 0.5, 0.8])
number_asks = st.one_of(numbers, st.dictionaries(limits, numbers, min_size=1, max_size=2))


@st.composite
def patterns(draw: st.DrawFn, *, first: bool, single: bool = False) -> dict[str, Any]:
    """Draws a pattern; the first one is a diagnosis, a `single` one holds no list."""
    which = "diagnosis" if first else draw(st.sampled_from(["diagnosis", "topology", "maintenance"]))
    found: dict[str, Any] = {"fact": which} if first else {"fact": which, "entity": "same"}
    if which == "diagnosis":
        many = st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=2, unique=True)
        found["condition"] = draw(st.sampled_from(CONDITIONS) if single else many)
        asks = severity_asks.filter(lambda ask: not (single and isinstance(ask, list)))
        found |= draw(st.fixed_dictionaries({}, optional={"severity": asks, "confidence": number_asks}))
    elif which == "topology" and draw(st.booleans()):
        found["members"] = draw(st.sampled_from([2, 4, {"at_least": 3}, {"not": 2}]))
    return found


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draws a few compiled policies."""
    policies = []
    for n in range(draw(st.integers(1, 5))):
        fields: dict[str, Any] = {"id": f"p{n}", "priority": draw(st.sampled_from([1, 2, 100]))}
        fields["when"] = [draw(patterns(first=True)), *draw(st.lists(patterns(first=False), max_size=2))]
        if draw(st.booleans()):
            fields["unless"] = draw(patterns(first=False, single=True))
        policies.append(policy(**fields))
    try:
        return compile_policies(policies)
    except InputError:
        reject()


entities = st.sampled_from(["rank A:n0", "rank A:n1", "node n0"])
facts = st.one_of(
    st.builds(
        diagnosis,
        st.sampled_from(CONDITIONS),
        entities,
        st.sampled_from(SEVERITIES),
        st.sampled_from([0.2, 0.5, 0.7999]),
    ),
    st.builds(topology, entities, st.sampled_from([2, 4])),
    st.builds(lambda e: build_fact("maintenance", e), entities),
)
steps = st.lists(st.tuples(st.sampled_from(["assert", "assert", "retract", "look"]), facts), max_size=40)
