"""Operators: one class for each function of the rule language, and what adding one takes."""

import math

import numpy as np
import pytest

from skewscope.engine.features.operators import protocol
from skewscope.engine.features.operators.protocol import OPERATORS, Operator, Reads, operator_class, register
from skewscope.engine.features.operators.stateless import Elementwise
from skewscope.rules import calls, expression, functions, language
from skewscope.rules.functions import FUNCTIONS, RuleFunction
from tests.support.rule_world import Lab, ranks

NODES = {"number", "signal", "seen", "lift", "neg", "and", "or", "not"}
SIGNS = {"+", "-", "*", "/", ">", ">=", "<", "<=", "==", "!="}


def test_every_function_has_an_operator_and_every_operator_a_function():
    assert set(OPERATORS) == set(FUNCTIONS) | NODES | SIGNS


def test_every_operator_is_a_class_of_its_own():
    assert len(set(OPERATORS.values())) == len(OPERATORS)
    assert all(issubclass(cls, Operator) and cls.__doc__ for cls in OPERATORS.values())


def test_a_name_has_one_operator():
    with pytest.raises(ValueError, match="peer_z is an operator already: PeerZ"):
        register("peer_z")(Elementwise)


def test_the_alternatives_of_a_function_are_those_of_its_operator():
    for name, function in FUNCTIONS.items():
        cls = OPERATORS[name]
        if len(function.params) == 2 and function.form == "pair":
            operator = object.__new__(cls)
            assert operator.is_available([True, False]) == function.alternatives


@pytest.fixture
def clamp(monkeypatch):
    """A function added as a contributor would: an entry in the table of functions, and a class."""
    entry = RuleFunction("clamp", "plain", ("x",), "same", "x, but no less than zero and no more than one")
    for module in (functions, calls, expression, language):
        if hasattr(module, "FUNCTIONS"):
            monkeypatch.setattr(module, "FUNCTIONS", {**FUNCTIONS, "clamp": entry})
    monkeypatch.setattr(protocol, "OPERATORS", dict(OPERATORS))

    @protocol.register("clamp")
    class Clamp(Elementwise):
        """x, but no less than zero and no more than one."""

        @staticmethod
        def function(x):
            return np.clip(x, 0.0, 1.0)

    return Clamp


def test_a_function_is_added_with_an_entry_and_a_class(clamp):
    lab = Lab(["clamp(wire.onset_lag)", "peer_highest(clamp(wire.onset_lag))", "mean(clamp(wire.onset_lag), 4*s)"])
    for _ in range(4):
        found = lab.tick(ranks([-1.0, 0.5, 7.0]))
    assert [found[0][f"A:n{n}"] for n in range(3)] == [0.0, 0.5, 1.0]
    assert [found[1][f"A:n{n}"] for n in range(3)] == [1.0, 1.0, 0.5]
    assert found[2]["A:n2"] == 1.0
    assert math.isnan(found[0]["A:n3"])
    assert operator_class(lab.exprs[0]) is clamp


def test_what_a_class_overrides_says_whether_it_evaluates_subsets():
    assert OPERATORS["peer_z"].supports_subset
    assert not OPERATORS["ewma"].supports_subset
    assert OPERATORS["ewma"].reads is Reads.NOTHING


def test_a_window_over_alternatives_takes_a_sample_when_the_chosen_one_has_a_sample():
    lab = Lab(["maximum(coalesce(wire.onset_lag, wire.round_period), 30*s)", "maximum(wire.onset_lag, 30*s)"])
    for n in range(40):
        # The lag comes every third tick; in between it stays known, and the period does not count as its sample.
        samples = {("wire.onset_lag", "A:n0"): float(n)} if n % 3 == 0 else {}
        chosen, alone = lab.tick({**samples, ("wire.round_period", "A"): 100.0})
    assert chosen["A:n0"] == alone["A:n0"] == 39.0
