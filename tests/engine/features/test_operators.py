"""Operators: one class for each function of the rule language, and what adding one takes."""

import math
import re
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from skewscope.engine.features.operators import elementwise, memories, protocol
from skewscope.engine.features.operators.elementwise import Elementwise, to_truth
from skewscope.engine.features.operators.memories import WindowStatistic
from skewscope.engine.features.operators.peers import PeerComparison, Reduction
from skewscope.engine.features.operators.protocol import OPERATORS, Operator, Reads, operator_class, register
from skewscope.rules import calls, expression, functions, language
from skewscope.rules.functions import FUNCTIONS, MEMORY, Q, W, X, Y
from skewscope.rules.signatures import Parameter, RuleFunction
from tests.support.rule_world import Lab, expr, faults, ranks

ROOT = Path(__file__).resolve().parents[3]
NODES = {"number", "signal", "seen", "lift", "neg", "and", "or", "not"}
SIGNS = {"+", "-", "*", "/", ">", ">=", "<", "<=", "==", "!="}


def test_every_function_has_an_operator_and_every_operator_a_function():
    assert set(OPERATORS) == set(FUNCTIONS) | NODES | SIGNS


def test_every_operator_is_a_class_of_its_own():
    assert len(set(OPERATORS.values())) == len(OPERATORS)
    assert all(issubclass(cls, Operator) and cls.__doc__ for cls in OPERATORS.values())


def test_a_name_has_one_operator():
    with pytest.raises(ValueError, match=r"peer_z is an operator already: PeerComparison\[peer_z\]"):
        register("peer_z")(Elementwise)


def test_the_alternatives_of_a_function_are_those_of_its_operator():
    for name, function in FUNCTIONS.items():
        if function.form == "elementwise" and len(function.value_params) > 1:
            operator = object.__new__(OPERATORS[name])
            assert operator.is_available([True, False]) == function.alternatives


@pytest.mark.parametrize(
    "name", sorted(name for name in FUNCTIONS if OPERATORS[name].evaluate is Elementwise.evaluate and name != "known")
)
def test_a_function_of_values_gives_the_declared_type_and_keeps_the_unknown(name):
    function = FUNCTIONS[name]
    values = [np.array([1.0, np.nan, 3.0])] * len(function.value_params)
    found = OPERATORS[name].function(*values, *[0.5] * len(function.constant_params))
    assert found.dtype == (np.int8 if function.result == "truth" else np.float64)
    assert (found[1] == 0) if function.result == "truth" else np.isnan(found[1])


@pytest.fixture
def add_function(monkeypatch):
    """Adds a function as a contributor would: an entry in the table of functions, and a class."""
    declared = dict(FUNCTIONS)
    for module in (functions, calls, expression, language, protocol, memories):
        if hasattr(module, "FUNCTIONS"):
            monkeypatch.setattr(module, "FUNCTIONS", declared)
    monkeypatch.setattr(protocol, "OPERATORS", dict(OPERATORS))

    def add(entry: RuleFunction, cls: type[Operator] | None = None) -> None:
        declared[entry.name] = entry
        if cls is not None:
            protocol.register(entry.name)(cls)

    return add


class Clamp(Elementwise):
    """x, but no less than `low` and no more than `high`."""

    @staticmethod
    def function(x, low, high):
        return np.clip(x, low, high)


class Near(Elementwise):
    """Whether two values are nearer to one another than a limit."""

    @staticmethod
    def function(x, y, limit):
        gap = np.abs(x - y)
        return to_truth(gap <= limit, gap > limit)


class AboveOthers(PeerComparison):
    """How far x is above a share of the largest of all peers."""

    @staticmethod
    def function(x, q):
        return x - q * np.fmax.reduce(x, axis=1)[:, None]


class Count(Reduction):
    """The number of parts above a limit."""

    @staticmethod
    def function(x, limit):
        return (x > limit).sum(axis=1).astype(np.float64)


class Swing(WindowStatistic):
    """The range of the samples between two quantiles."""

    layers = ("last",)

    def statistic(self, window, slots, count, columns):
        low = window.quantile(slots, self.params[0], columns)
        return window.quantile(slots, self.params[1], columns) - low


LIMITS = (X, Parameter("low", "constant"), Parameter("high", "constant"))
ADDED = [
    (RuleFunction("clamp", "elementwise", LIMITS, "same", "x within limits"), Clamp),
    (RuleFunction("near", "elementwise", (X, Y, W), "truth", "whether x is within w of y"), Near),
    (RuleFunction("above_others", "peers", (X, Q), "same", "x above q times the largest peer"), AboveOthers),
    (RuleFunction("count", "reduce", (X, Parameter("limit", "constant")), "one", "parts above a limit"), Count),
    (RuleFunction("swing", "window", (X, Q, Parameter("p", "quantile"), W), "same", "between quantiles"), Swing),
]


def test_a_function_of_any_shape_is_added_with_an_entry_and_a_class(add_function):
    for entry, cls in ADDED:
        add_function(entry, cls)
    lab = Lab(
        [
            "clamp(wire.onset_lag, 0, 1000*ms)",
            "mean(clamp(wire.onset_lag, 0*s, 1*s), 4*s)",
            "above_others(wire.onset_lag, 0.5)",
            "swing(wire.onset_lag, 0.1, 0.9, 4*s)",
        ]
    )
    for _ in range(4):
        found = lab.tick(ranks([-1.0, 0.5, 7.0]))
    assert [found[0][f"A:n{n}"] for n in range(3)] == [0.0, 0.5, 1.0]
    assert math.isnan(found[0]["A:n3"])
    assert found[1]["A:n2"] == 1.0
    assert [found[2][f"A:n{n}"] for n in range(3)] == [-4.5, -3.0, 3.5]
    assert found[3]["A:n2"] == 0.0
    assert operator_class(lab.exprs[0]) is Clamp


def test_an_added_function_of_truth_is_yes_no_or_unknown(add_function):
    for entry, cls in ADDED:
        add_function(entry, cls)
    lab = Lab(
        [
            "near(wire.onset_lag, wire.round_period, 3*ms) and wire.onset_lag > 0",
            "not near(wire.onset_lag, wire.round_period, 1*s)",
        ],
        wants="truth",
    )
    both, apart = lab.tick({**ranks([0.010, 0.020]), ("wire.round_period", "A"): 0.0125})
    assert [both[f"A:n{n}"] for n in range(3)] == [1, -1, 0]
    assert [apart[f"A:n{n}"] for n in range(3)] == [-1, -1, 0]


def test_constants_are_checked_and_printed_with_their_units(add_function):
    for entry, cls in ADDED:
        add_function(entry, cls)
    tree = expr("clamp(wire.onset_lag, 2*ms, 1*s) > 5*ms")
    assert str(tree) == "clamp(wire.onset_lag, 0.002*s, 1*s) > (0.005*s)"
    assert expr(str(tree)) == tree
    assert "a constant, a number in s" in faults("clamp(wire.onset_lag, 1*By, 1*s) > 5*ms")
    assert "as high" in faults("clamp(wire.onset_lag, 1*s, wire.onset_lag) > 5*ms")
    assert "3 arguments for clamp" not in faults("clamp(wire.onset_lag, 1*s) > 5*ms")
    assert "clamp(x, low, high)" in faults("clamp(wire.onset_lag, 1*s) > 5*ms")
    assert "s beside 1/s" in faults("near(wire.onset_lag, wire.round_rate, 1*s)")
    assert "a time up to" in faults("near(wire.onset_lag, wire.round_period, 2)")
    assert "only constants" in faults("max(2*s, 3*s) > wire.onset_lag")
    assert expr("highest(gpu.util) > 0 and count(gpu.util, 50*percent) > 2", "node").is_boolean


UNSUPPORTED = [
    ("pair", (X, Y), "same", {}, "expected one of elementwise, window"),
    ("elementwise", (), "one", {}, "found 0 values"),
    ("elementwise", (Q, X), "same", {}, "expected the constants after the values"),
    ("elementwise", (X, X), "same", {}, "different names"),
    ("elementwise", (X, Parameter("c", "counter")), "same", {}, "a signal beside other values"),
    ("elementwise", (Parameter("x", "operand"),), "same", {}, "one operand"),
    ("elementwise", (Parameter("x", "value", 1.0),), "same", {}, "an optional value"),
    ("elementwise", (X, MEMORY, Q), "same", {}, "a required parameter after"),
    ("elementwise", (X,), "pages", {}, "found the result 'pages'"),
    ("elementwise", (X, Q), "same", {"alternatives": True}, "found alternatives"),
    ("elementwise", (X,), "same", {"kinds": ("port",)}, "for topology only"),
    ("window", (X, W, Q), "same", {}, "a window as the last parameter"),
    ("window", (X,), "same", {}, "a window as the last parameter"),
    ("window", (X, Y, W), "same", {}, "found 2 values"),
    ("window", (X, W), "truth", {}, "which window does not give"),
    ("window", (X, Q, W), "one", {"single_window": (1.0, 2.0)}, "one factor for each"),
    ("baseline", (X, Q, W), "one", {}, "q: quantile"),
    ("baseline", (X, Parameter("v", "window"), W), "one", {}, "the memory alone"),
    ("peers", (X, W), "one", {}, "w: window, which peers does not support"),
    ("peers", (X,), "truth", {}, "which peers does not give"),
    ("peers", (Q,), "one", {}, "constants without a value"),
    ("reduce", (X, Y), "one", {}, "found 2 values"),
    ("front", (X,), "one", {}, "expected 'same'"),
    ("front", (X, Q), "same", {}, "which front does not support"),
    ("topology", (), "same", {"kinds": ("port",)}, "without a value that has a unit"),
    ("topology", (), "one", {}, "no kinds of entity"),
]


@pytest.mark.parametrize(("form", "params", "result", "more", "reason"), UNSUPPORTED)
def test_an_unsupported_declaration_is_refused(form, params, result, more, reason):
    with pytest.raises(ValueError, match=f"the function 'new': .*{reason}"):
        RuleFunction("new", form, params, result, "something new", **more)


def test_the_example_of_the_documentation_works(add_function):
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Add a function to the rule language")[2]
    entry, operator = [dedent(text) for text in re.findall(r"```python\n(.*?)```", section, re.DOTALL)[:2]]
    add_function(eval(entry, vars(functions)))
    exec(operator, vars(elementwise) | {"register": protocol.register})
    lab = Lab(["near(wire.onset_lag, wire.round_period, 3*ms)"], wants="truth")
    found = lab.tick({**ranks([0.010, 0.020]), ("wire.round_period", "A"): 0.0125})
    assert [found[0][f"A:n{n}"] for n in range(3)] == [1, -1, 0]


def test_a_class_that_cannot_compute_a_function_is_refused(add_function):
    with pytest.raises(ValueError, match=r"the operator of the function 'new': .*those of new\(x\)"):
        add_function(RuleFunction("new", "elementwise", (X,), "same", "something new"), Clamp)
    with pytest.raises(ValueError, match="found the form 'peers', expected elementwise for a Clamp"):
        add_function(RuleFunction("new", "peers", (X,), "same", "something new"), Clamp)
    with pytest.raises(ValueError, match="found the result 'truth', expected a number"):
        add_function(RuleFunction("new", "reduce", (X,), "truth", "something new"), Count)


def test_what_a_class_overrides_says_whether_it_evaluates_subsets():
    assert "evaluate_subset" in OPERATORS["peer_z"].overrides
    assert "evaluate_subset" not in OPERATORS["ewma"].overrides
    assert OPERATORS["ewma"].reads is Reads.NOTHING


def test_a_window_over_alternatives_takes_a_sample_when_the_chosen_one_has_a_sample():
    lab = Lab(["maximum(coalesce(wire.onset_lag, wire.round_period), 30*s)", "maximum(wire.onset_lag, 30*s)"])
    for n in range(40):
        # The lag comes every third tick; in between it stays known, and the period does not count as its sample.
        samples = {("wire.onset_lag", "A:n0"): float(n)} if n % 3 == 0 else {}
        chosen, alone = lab.tick({**samples, ("wire.round_period", "A"): 100.0})
    assert chosen["A:n0"] == alone["A:n0"] == 39.0
