"""The rule language: what it takes, what it refuses, and that it never raises."""

import pickle
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.rules.entity_kinds import PEER_DEFAULTS, SCOPES
from skewscope.rules.expression import Peers, format_expression
from skewscope.rules.functions import FUNCTIONS
from skewscope.rules.language import ExpressionContext, compile_expression, compile_let
from skewscope.rules.parsing import MAX_CHARACTERS, mentioned_lets, mentioned_signals
from skewscope.rules.reference_table import REFERENCE, renew_table
from tests.support.rule_world import SIGNALS, expr, faults

GOOD = [
    ("rank", "peer_z(wire.onset_lag) > 4 and wire.onset_lag > 2*ms"),
    ("rank", "1*ms < wire.onset_lag < 2*s"),
    ("rank", "not (wire.onset_lag > 1*ms or known(wire.round_rate))"),
    ("rank", "wire.onset_lag > 12*percent * mean(wire.round_period, 3*s)"),
    ("rank", "highest(rate(port.rx_discards[east_west], 5*s)) > 5*packets/s"),
    ("rank", "rate(total(port.tx_bytes), 5*s) > 10*MB/s"),
    ("rank", "change(wire.round_rate, 20*s) < -15*percent"),
    ("rank", "change(wire.round_rate, 5*s, 20*s) < -0.15"),
    ("rank", "peers() >= 3 and size() > peers() / 2"),
    ("rank", "highest(gpu.util) > 90*percent"),
    ("group", "front(wire.open_streams) > 8*streams"),
    ("group", "highest(wire.onset_lag) - lowest(wire.onset_lag) > 0"),
    ("replica", "rate(front(wire.requests), 4*s) * 1*s > 3*requests"),
    ("replica", "peer_ratio(rate(front(wire.requests), 4*s)) > 2"),
    ("replica", "bucket_quantile(serve.ttft, 0.95, 30*s) > 2 * bucket_mean(serve.ttft, 30*s)"),
    ("node", "highest(rate(port.tx_bytes[east_west], 3*s) / speed()) > 90*percent"),
    ("node", "highest(peer_z(gpu.temperature)) > 4 and highest(gpu.temperature) > 80*Cel"),
    ("node", "age(host.load) > 10*s and lowest(age(port.tx_bytes)) < 5*s"),
    ("node", "standing(wire.requests) >= 30*s"),
    ("port", "middle(wire.peer_rtt) > 100*us"),
    ("port", "samples(wire.rtt, 5*s) >= 4"),
    ("port", "jitter(wire.rtt, 5*s) > mean(wire.rtt, 5*s) and burst(wire.rtt, 5*s) > 3"),
    ("port", "port.depth[p3] > 100*packets and slope(port.depth, 5*s) > 0*packets/s"),
    ("port", "quantile(wire.rtt, 0.95, 10*s) > 2 * minimum(wire.rtt, 1*minute)"),
    ("gpu", "share(gpu.util) > 0.5 or gini(gpu.util) > 0.3 or peer_spread(gpu.util) > 1"),
    ("gpu", "drift(gpu.util) < -20*percent and baseline_z(gpu.util, 2*minute) < -4"),
    ("fleet", "total(wire.open_streams) > 100*streams and log10(average(host.load)) > 1"),
    ("link", "maximum(switch.queue, 5*s) > 1*MB and peer_excess(switch.queue) > 100*kB"),
    ("rank", "peer_lowest(wire.onset_lag) > 2*ms or coalesce(wire.onset_lag, wire.round_period) > 1*s"),
    ("port", "ratio(rate(port.rx_discards, 5*s), rate(wire.requests, 5*s)) > 2"),
    ("node", "number_of(wire.open_streams) > 3 and number_of(rate(wire.requests, 5*s)) * 2*s > 1"),
    ("pool", "highest(serve.waiting) > max(lowest(serve.waiting), 3*requests)"),
]


@pytest.mark.parametrize(("scope", "text"), GOOD)
def test_a_good_expression_is_about_the_judged_kind_and_prints_as_itself(scope: str, text: str) -> None:
    tree = expr(text, scope)
    assert tree.is_boolean
    assert tree.kind == scope
    assert expr(format_expression(tree), scope) == tree
    assert format_expression(expr(format_expression(tree), scope)) == format_expression(tree)


BAD = [
    ("wire.onset_lagg > 1*ms", "Did you mean 'wire.onset_lag'?"),
    ("wire.onset_lag > 4", "s beside a number without unit"),
    ("wire.onset_lag > 4", "Write 4*s."),
    ("rate(port.tx_bytes, 5*s) > rate(port.rx_discards, 5*s)", "By/s beside {packet}/s"),
    ("wire.onset_lag > 4*percent", "s beside a number without unit"),
    ("wire.onset_lag + wire.last_sender_share > 0", "s beside a number without unit"),
    ("wire.onset_lag", "a number in s"),
    ("wire.onset_lag and 1 < 2", "Compare it with a threshold"),
    ("(wire.onset_lag > 0) > 1", "Join comparisons"),
    ("wire.last_sender_share", "a number without unit"),
    ("1 < 2", "two constants"),
    ("1*ms", "a comparison (yes or no)"),
    ("port.tx_bytes > 5*MB", "Write rate(port.tx_bytes, 5*s)"),
    ("serve.ttft > 5*s", "bucket_quantile"),
    ("mean(port.tx_bytes, 5*s) > 5*MB", "the bare counter"),
    ("rate(wire.onset_lag, 5*s) > 0", "a counter"),
    ("rate(port.tx_bytes[east_west], 3*s) > 5*MB/s", "Reduce it with highest()"),
    ("wire.open_streams > front(wire.open_streams) + gpu.util", "beside one of a gpu"),
    ("highest(wire.round_rate) > 1/s", "Leave highest() out"),
    ("highest(switch.queue) > 1*By", "from link to rank"),
    ("mean(wire.onset_lag, 5) > 0", "as w"),
    ("mean(wire.onset_lag, 2*hour) > 0", "a time up to"),
    ("mean(wire.onset_lag, 0*s) > 0", "a time up to"),
    ("mean(wire.onset_lag, wire.onset_lag) > 0", "as w"),
    ("quantile(wire.onset_lag, 2, 5*s) > 0", "from 0 to 1"),
    ("mean(5, 5*s) > 0", "a constant"),
    ("mean(wire.onset_lag) > 0", "mean(x, w)"),
    ("mean(x=wire.onset_lag, w=5*s) > 0", "named or starred"),
    ("mean(*wire.onset_lag) > 0", "named or starred"),
    ("median(wire.onset_lag) > 0", "an unknown function"),
    ("peer_zz(wire.onset_lag) > 0", "Did you mean 'peer_z'?"),
    ("wire.onset_lag > 3*msec", "an unknown name 'msec'"),
    ("mean > 3", "without its arguments"),
    ("port.tx_bytes[rx]", "Leave [rx] out"),
    ("highest(wire.rtt[east_west, north_south]) > 0", "two networks"),
    ("highest(wire.rtt[1.5]) > 0", "no word"),
    ("log10(wire.onset_lag) > 0", "a number without unit"),
    ("coalesce(wire.onset_lag, wire.round_rate) > 0", "s beside 1/s"),
    ("coalesce(wire.onset_lag, 1*s) > 0", "a constant"),
    ("ratio(wire.onset_lag, wire.round_rate) > 0", "s over 1/s"),
    ("ratio(2, 3) > wire.last_sender_share", "only constants"),
    ("speed() > 1*MB/s", "one value of each rank"),
    ("wire.onset_lag == 'late'", "a number"),
    ("wire.onset_lag > True", "a number"),
    ("wire.onset_lag is 5", "the comparison is"),
    ("wire.onset_lag in (1, 2)", "does not have"),
    ("wire.onset_lag ** 2 > 0", "the operator pow"),
    ("~wire.onset_lag > 0", "not"),
    ("[x for x in wire.onset_lag]", "listcomp"),
    ("lambda: 1", "lambda"),
    ("(x := 5) > 0", "namedexpr"),
    ("__import__('os').system('true')", "an unknown function ''"),
    ("wire.onset_lag.__class__ > 0", "an unknown signal"),
    ("f'{wire.onset_lag}' > 0", "joinedstr"),
    ("1/0 > wire.onset_lag", "a division by zero"),
    ("1e999 > wire.onset_lag", "too large"),
    (f"{'9' * 500} > wire.onset_lag", "too large"),
    ("1e300*1e300 > wire.onset_lag", "too large"),
    ("1j > wire.onset_lag", "a number"),
    ("", "no expression"),
    ("wire.onset_lag >", "no expression"),
    ("a; b", "no expression"),
    ("a\x00b", "no expression"),
    ("(" * 300 + ")" * 300, "no expression"),
    ("-" * 100 + "1", "nesting deeper"),
    ("x" * (MAX_CHARACTERS + 1), "characters"),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_a_bad_expression_says_what_is_wrong(text: str, said: str) -> None:
    assert said in faults(text)


def test_all_faults_of_an_expression_are_told_at_once_with_their_columns() -> None:
    told = faults("wire.onset_lagg > 1*ms and wire.rtd > 2 and mean(wire.onset_lag, 3) > 0").splitlines()
    assert [line.partition(":")[0] for line in told] == ["1", "28", "66"]


def context(**lets: str) -> ExpressionContext:
    """A rank's context with lets, each of which may use those before it."""
    found = ExpressionContext(SIGNALS, "rank", Peers("rank", "group"))
    for name, text in lets.items():
        tree, problems = compile_let(name, text, found)
        assert not problems, problems
        found = replace(found, lets={**found.lets, name: tree})
    return found


def test_a_let_gives_the_same_tree_as_its_definition_in_place() -> None:
    lets = {"lag": "mean(wire.onset_lag, 2*s)", "excess": "peer_excess(lag)", "late": "excess > 2*ms and lag > 3*ms"}
    tree, _ = compile_expression("late and excess > 0.67 * lag", context(**lets))
    lag = "mean(wire.onset_lag, 2*s)"
    assert tree == expr(f"(peer_excess({lag}) > 2*ms and {lag} > 3*ms) and peer_excess({lag}) > 0.67 * {lag}", "rank")


def test_a_let_may_be_a_constant_and_belong_to_another_kind() -> None:
    lets = {"span": "4*s", "rtt": "wire.rtt[east_west]"}
    tree, _ = compile_expression("highest(mean(rtt, span)) > 1*ms", context(**lets))
    assert tree == expr("highest(mean(wire.rtt[east_west], 4*s)) > 1*ms")


@pytest.mark.parametrize("name", ["mean", "ms", "wire", "and", "lambda", "tx", "east_west", "any"])
def test_a_let_does_not_hide_another_name(name: str) -> None:
    tree, (problem,) = compile_let(name, "1*ms", context())
    assert tree is None
    assert "another name" in problem.expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("peer_z(wire.onset_lag) + wire.onset_lag", "a number without unit beside s"),
        ("port.tx_bytes", "the bare counter"),
        ("wire.onset_lag + gpu.util", "beside"),
        ("later_let", "an unknown name"),
        ("", "no expression"),
    ],
)
def test_a_let_is_checked_where_it_is_defined(text: str, said: str) -> None:
    tree, problems = compile_let("name", text, context())
    assert tree is None
    assert said in " ".join(map(str, problems))


def test_the_wrong_use_of_a_let_is_refused() -> None:
    _, problems = compile_expression("age(lag) > 1*s and lagg > 1*s", context(lag="mean(wire.onset_lag, 2*s)"))
    assert [(p.column, p.hint[:12]) for p in problems] == [(5, "Call the fun"), (20, "Did you mean")]


def test_lets_cannot_expand_without_bound() -> None:
    setting = context(a="wire.onset_lag + wire.onset_lag")
    for before, name in pairwise("abcdefghijklmnop"):
        tree, problems = compile_let(name, " + ".join([before] * 15), setting)
        if problems:
            assert "once its lets are expanded" in problems[0].found
            return
        setting = replace(setting, lets={**setting.lets, name: tree})
    pytest.fail("a let of sixteen levels was taken")


def test_lets_mentioned_are_told_from_subscripts() -> None:
    assert mentioned_lets("highest(port.depth[p3]) > p3 + p3", {"p3", "p4"}) == ("p3", "p3")


@pytest.mark.parametrize("name", ["size", "front(host.load)"])
def test_functions_of_groups_are_refused_where_there_is_no_group(name: str) -> None:
    text = name if "(" in name else f"{name}()"
    assert "a rule about ranks" in faults(f"{text} > 0", "node")


def test_zero_is_of_every_unit() -> None:
    assert expr("wire.onset_lag > 0").args[1].dimension == ()


def test_units_of_signals_are_taken_to_base_units() -> None:
    assert expr("gpu.util > 90*percent", "gpu").args[0].value == pytest.approx(0.01)
    assert expr("rate(port.pause_time, 5*s) > 0", "port").args[0].args[0].value == pytest.approx(1e-6)


def test_what_is_written_differently_but_means_the_same_is_the_same_tree() -> None:
    assert expr("wire.onset_lag > 3*ms") == expr("(wire.onset_lag) > 0.003*s")
    assert expr("highest(wire.rtt[rx, east_west]) > 0") == expr("highest(wire.rtt[east_west, rx, any]) > 0")
    assert expr("rate(front(wire.requests), 4*s) > 0", "group") == expr("front(rate(wire.requests, 4*s)) > 0", "group")


def test_a_value_is_lifted_to_its_parts_and_compared_there() -> None:
    tree = expr("wire.round_period > wire.onset_lag")
    assert tree.kind == "rank"
    assert tree.args[0].op == "lift"


def test_wants_decides_the_type_of_the_whole() -> None:
    assert expr("-change(wire.round_rate, 8*s)", wants="share").dimension == ()
    assert expr("5*s", wants="seconds").value == 5.0
    assert "a share" in faults("wire.onset_lag", wants="share")
    assert "a length of time" in faults("5", wants="seconds")


def test_mentioned_signals_are_found_without_compiling() -> None:
    text = "mean(wire.onset_lag, 2*s) > nonsense.signal[tx] and wire.onset_lag > 0"
    assert mentioned_signals(text) == ("nonsense.signal", "wire.onset_lag")
    assert mentioned_signals("no (expression") == ()
    assert mentioned_signals("lag > 0", {"lag": ("wire.onset_lag",)}) == ("wire.onset_lag",)


def test_the_reference_lists_every_function() -> None:
    page = REFERENCE.read_text(encoding="utf-8")
    assert renew_table(page) == page, "run python -m skewscope.rules.reference_table"
    assert renew_table("no table") == "no table"


# --- laws

scopes = st.sampled_from(SCOPES)
words = st.sampled_from(
    (
        *FUNCTIONS,
        *SIGNALS,
        *"()[],.+-*/<>=!~%@:'\"\\\n \té\x00{}50",
        *(
            "and",
            "or",
            "not",
            "if",
            "else",
            "lambda",
            "in",
            "is",
            "await",
            "for",
            "s",
            "ms",
            "1e9",
            "tx",
            "east_west",
            "**",
            ":=",
        ),
    )
)
listed = st.lists(words, max_size=30)
garbage = st.one_of(st.text(max_size=80), listed.map(" ".join), listed.map("".join))


@given(garbage, scopes, st.sampled_from(["truth", "share", "seconds", "number"]))
def test_garbage_gives_faults_and_never_raises(text: str, scope: str, wants: str) -> None:
    found, told = compile_expression(text, ExpressionContext(SIGNALS, scope, Peers(scope, PEER_DEFAULTS[scope])), wants)
    assert (found is None) == bool(told)
    if found is not None:
        assert expr(format_expression(found), scope, wants) == found


windows = st.integers(1, 60).map(lambda n: f"{n}*s")
lags = st.recursive(
    st.sampled_from(["wire.onset_lag", "wire.round_period", "highest(wire.rtt[east_west])", "lowest(wire.rtt)"]),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["mean", "minimum", "maximum", "ewma", "jitter"]), inner, windows).map(
            lambda p: f"{p[0]}({p[1]}, {p[2]})"
        ),
        st.tuples(st.sampled_from(["peer_excess", "abs"]), inner).map(lambda p: f"{p[0]}({p[1]})"),
        st.tuples(inner, st.sampled_from("+-"), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(inner, st.floats(0.001, 1000)).map(lambda p: f"{p[0]} * {p[1]!r}"),
        st.tuples(inner, inner, inner).map(lambda p: f"{p[0]} * {p[1]} / {p[2]}"),
        inner.map(lambda p: f"-{p}"),
    ),
    max_leaves=4,
)
truths = st.recursive(
    st.tuples(lags, st.sampled_from(["<", ">=", "=="]), st.floats(0, 100)).map(lambda p: f"{p[0]} {p[1]} {p[2]!r}*ms"),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        inner.map(lambda p: f"not ({p})"),
    ),
    max_leaves=3,
)


@given(truths)
def test_what_is_printed_reads_back_as_the_same_tree(text: str) -> None:
    found, _ = compile_expression(text, ExpressionContext(SIGNALS, "rank", Peers("rank", "group")))
    if found is not None and len(format_expression(found)) <= MAX_CHARACTERS:
        again, told = compile_expression(
            format_expression(found), ExpressionContext(SIGNALS, "rank", Peers("rank", "group"))
        )
        assert again == found or any("nesting" in fault.found for fault in told)


def test_a_tree_that_travels_to_another_process_is_still_the_same_key() -> None:
    tree = expr("peer_z(wire.onset_lag) > 4 and wire.onset_lag > 2*ms")
    again = pickle.loads(pickle.dumps(tree))
    assert again == tree
    assert {tree: 1}[again] == 1
    assert hash(replace(tree, name="x")) != hash(tree)
