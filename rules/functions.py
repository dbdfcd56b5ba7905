"""The functions of the rule language: arguments, unit of the result, and how the arguments are checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from skewscope.kb.units import Dimension
from skewscope.rules.units import NUMBER, SECOND


@dataclass(frozen=True, slots=True)
class RuleFunction:
    """One function. `params` names its arguments; those after the first `required` are optional."""

    name: str
    form: str
    """window, baseline, peers, reduce, front, plain, pair or topology: how its arguments are checked."""
    params: tuple[str, ...]
    result: str
    """same, one, number, seconds, per-second, speed or truth: the unit of the result."""
    description: str
    required: int = 0
    defaults: tuple[float, ...] = ()
    alternatives: bool = False
    """Whether one known argument is enough for a known result."""

    @property
    def min_arguments(self) -> int:
        """Number of arguments that are required."""
        return self.required or len(self.params)

    @property
    def param_units(self) -> tuple[Dimension, ...]:
        """Units of the constant arguments, in order."""
        return tuple(SECOND if p in WINDOW_PARAMS else NUMBER for p in self.params if p in WINDOW_PARAMS or p == "q")


WINDOW_PARAMS = ("w", "recent", "past")
"""Names of parameters that are durations."""

_TABLE = (
    RuleFunction("rate", "window", ("counter", "w"), "per-second", "increase of a counter per second over the last w"),
    RuleFunction("mean", "window", ("x", "w"), "same", "mean of the samples of the last w"),
    RuleFunction("minimum", "window", ("x", "w"), "same", "smallest sample of the last w"),
    RuleFunction("maximum", "window", ("x", "w"), "same", "largest sample of the last w"),
    RuleFunction("quantile", "window", ("x", "q", "w"), "same", "quantile q (0 to 1) of the samples of the last w"),
    RuleFunction("slope", "window", ("x", "w"), "per-second", "change per second, least squares over the last w"),
    RuleFunction("ewma", "window", ("x", "w"), "same", "exponentially weighted mean with the time constant w"),
    RuleFunction("jitter", "window", ("x", "w"), "same", "standard deviation over the last w"),
    RuleFunction("burst", "window", ("x", "w"), "one", "largest sample over the mean, in the last w"),
    RuleFunction(
        "change",
        "window",
        ("x", "recent", "past"),
        "one",
        "mean of the last `recent` over the mean of the `past` before it, minus 1; change(x, w) is change(x, w/4, w)",
        required=2,
    ),
    RuleFunction(
        "baseline_z",
        "baseline",
        ("x", "w"),
        "one",
        "distance from the entity's own healthy past in its standard deviations; w is the memory, 60 s by default",
        required=1,
        defaults=(60.0,),
    ),
    RuleFunction(
        "drift",
        "baseline",
        ("x", "w"),
        "one",
        "x over the entity's own healthy past, minus 1; w is the memory, 60 s by default",
        required=1,
        defaults=(60.0,),
    ),
    RuleFunction("peer_z", "peers", ("x",), "one", "x minus the median of the other peers, in their robust deviations"),
    RuleFunction("peer_ratio", "peers", ("x",), "one", "x over the median of the other peers"),
    RuleFunction("peer_excess", "peers", ("x",), "same", "x minus the median of the other peers"),
    RuleFunction("peer_highest", "peers", ("x",), "same", "largest x among the other peers"),
    RuleFunction("peer_lowest", "peers", ("x",), "same", "smallest x among the other peers"),
    RuleFunction("peer_spread", "peers", ("x",), "one", "largest minus smallest among the peers, over their median"),
    RuleFunction("share", "peers", ("x",), "one", "x over the sum of the peers, itself included"),
    RuleFunction(
        "gini",
        "peers",
        ("x",),
        "one",
        "Gini coefficient among the peers: 0 where all are equal, near 1 where one has all",
    ),
    RuleFunction(
        "peers",
        "peers",
        (),
        "one",
        "number of peers that ever reported a signal of the rule, itself included; unknown where silent ones decide",
        alternatives=True,
    ),
    RuleFunction("heard", "peers", ("x",), "one", "number of peers whose x is known now, itself included"),
    RuleFunction("highest", "reduce", ("x",), "same", "largest among the parts of the judged entity"),
    RuleFunction("lowest", "reduce", ("x",), "same", "smallest among the parts of the judged entity"),
    RuleFunction("total", "reduce", ("x",), "same", "sum over the parts of the judged entity"),
    RuleFunction("average", "reduce", ("x",), "same", "mean over the parts of the judged entity"),
    RuleFunction("middle", "reduce", ("x",), "same", "lower median over the parts of the judged entity"),
    RuleFunction(
        "complete",
        "reduce",
        ("x",),
        "truth",
        "yes where all parts of the judged entity have a value now, else unknown",
    ),
    RuleFunction("front", "front", ("x",), "same", "value at the node that is the front end of the group or replica"),
    RuleFunction(
        "known", "plain", ("any",), "truth", "yes where x has a value now, no where it has none; never unknown"
    ),
    RuleFunction(
        "reading", "plain", ("counter",), "same", "newest reading of a counter, to compare members that count alike"
    ),
    RuleFunction("age", "plain", ("signal",), "seconds", "seconds since the last sample"),
    RuleFunction("abs", "plain", ("x",), "same", "size without sign"),
    RuleFunction("min", "pair", ("x", "y"), "same", "the smaller of two"),
    RuleFunction("max", "pair", ("x", "y"), "same", "the larger of two"),
    RuleFunction(
        "coalesce", "pair", ("x", "y"), "same", "x where it is known, else y; unknown where both are", alternatives=True
    ),
    RuleFunction(
        "ratio",
        "pair",
        ("x", "y"),
        "one",
        "x over y as a plain number, whatever each of them counts; unknown where y is zero",
    ),
    RuleFunction("number_of", "plain", ("x",), "number", "x without its counted unit: packets per second become 1/s"),
    RuleFunction("log10", "plain", ("x",), "one", "logarithm to the base of ten of a number without unit"),
    RuleFunction("speed", "topology", (), "speed", "speed of the port, in bytes per second"),
    RuleFunction("size", "topology", (), "one", "number of members of the group, replica or pool"),
    RuleFunction(
        "bucket_quantile", "window", ("histogram", "q", "w"), "same", "quantile q of the observations of the last w"
    ),
    RuleFunction("bucket_mean", "window", ("histogram", "w"), "same", "mean of the observations of the last w"),
)

FUNCTIONS: Mapping[str, RuleFunction] = {f.name: f for f in _TABLE}


def reference_table() -> str:
    """The table of functions for the language reference, in Markdown."""
    rows = [f"| `{f.name}({', '.join(f.params)})` | {_RESULT_LABELS[f.result]} | {f.description} |" for f in _TABLE]
    return "\n".join(["| function | gives | what |", "|---|---|---|", *rows])


_RESULT_LABELS = {
    "same": "the unit of x",
    "one": "a number",
    "number": "the unit of x without what it counts",
    "seconds": "s",
    "per-second": "the unit of x per second",
    "speed": "By/s",
    "truth": "yes or no",
}
