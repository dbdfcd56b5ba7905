"""Evidence against a condition that is unknown only because its window is too short holds the rule back."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rule_world import RULE, Bench, rule

START = """evidence:
  - {name: late, for: 3, required: true, when: wire.onset_lag > 2*ms, why: It says so.}
"""
REST = "\n".join(RULE.splitlines()[RULE.splitlines().index("fire: {score: 3, hold: 2*s}") :])
HEAD = RULE[: RULE.index("evidence:")].replace("applies_when: peers() >= 3\n", "")
LATE = {("wire.onset_lag", "A:n1"): 9e-3}


def veto_rule(when: str):
    """A rule on late ranks with one item against."""
    return rule(f"{HEAD}{START}  - {{name: veto, against: 2, when: '{when}', why: A guess.}}\n{REST}\n")


def first_firing(bench: Bench, ticks: int, pace) -> int | None:
    """Number of the tick in which the rule first fires; `pace(n)` is the group's rate of rounds, None for no sample."""
    for n in range(ticks):
        rate = pace(n)
        samples = LATE if n >= 40 else {("wire.onset_lag", "A:n1"): 1e-3}
        (verdict,) = bench.tick(samples | ({} if rate is None else {("wire.round_rate", "A"): rate}))
        if verdict.firing.any():
            return n
    return None


def test_a_rule_waits_until_evidence_against_it_can_be_judged():
    when = "mean(wire.round_rate, 20*s) > 50*Hz"
    assert first_firing(Bench(veto_rule(when)), 80, lambda _: 10.0) == 42
    assert first_firing(Bench(veto_rule(when)), 80, lambda n: 10.0 if n >= 38 else None) == 47
    assert first_firing(Bench(veto_rule(when)), 80, lambda n: 90.0 if n >= 38 else None) is None


def test_evidence_that_never_comes_holds_nothing_back():
    assert first_firing(Bench(veto_rule("mean(wire.round_rate, 20*s) > 50*Hz")), 80, lambda _: None) == 42


def test_a_missing_part_that_never_comes_cannot_speak_against():
    when = "mean(wire.round_rate, 20*s) > 50*Hz and highest(wire.rtt[east_west]) > 1*ms"
    assert first_firing(Bench(veto_rule(when)), 80, lambda n: 90.0 if n >= 38 else None) == 42


def test_a_past_that_is_too_short_holds_back_as_well():
    when = "drift(wire.round_rate, 60*s) > -10*percent"
    assert first_firing(Bench(veto_rule(when)), 120, lambda n: 90.0 if n >= 38 else None) is None
    assert first_firing(Bench(veto_rule(when)), 120, lambda n: 90.0 if n < 40 else 60.0) == 42


@given(
    st.sampled_from(
        ["mean(wire.round_rate, 20*s)", "minimum(wire.round_rate, 10*s)", "maximum(wire.round_rate, 30*s)"]
    ),
    st.floats(10, 90),
    st.integers(0, 60),
)
@settings(max_examples=12, deadline=None)
def test_evidence_that_ripens_later_never_lets_a_rule_fire_earlier(what, rate, begin):
    when = f"{what} > 50*Hz"
    ripe = first_firing(Bench(veto_rule(when)), 100, lambda _: rate)
    later = first_firing(Bench(veto_rule(when)), 100, lambda n: rate if n >= begin else None)
    # Before its first sample it is missing, which holds nothing back.
    assert begin > 40 or (later is None) == (ripe is None)
    assert begin > 40 or ripe is None or later >= ripe
