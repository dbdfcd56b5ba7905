"""The functions of the rule language: what each takes, what it gives, and where it may stand."""

from collections.abc import Mapping
from dataclasses import dataclass

from skewscope.kb.units import Dimension
from skewscope.rules.units import NUMBER, SECOND


@dataclass(frozen=True, slots=True)
class Function:
    """One function. `params` names its arguments; those after `required` may be left out."""

    name: str
    form: str
    """window, baseline, peers, reduce, front, plain or topology: how it is evaluated."""
    params: tuple[str, ...]
    gives: str
    """same, one, seconds, per-second, speed or truth: the unit of the result."""
    about: str
    required: int = 0
    defaults: tuple[float, ...] = ()

    @property
    def least(self) -> int:
        """How many arguments must be written."""
        return self.required or len(self.params)

    @property
    def param_units(self) -> tuple[Dimension, ...]:
        """Units of the constant arguments, in order."""
        return tuple(SECOND if p in WINDOWS else NUMBER for p in self.params if p in WINDOWS or p == "q")


WINDOWS = ("w", "recent", "past")
"""Names of parameters that are lengths of time."""

_TABLE = (
    Function("rate", "window", ("counter", "w"), "per-second", "increase of a counter per second over the last w"),
    Function("mean", "window", ("x", "w"), "same", "mean of the samples of the last w"),
    Function("minimum", "window", ("x", "w"), "same", "smallest sample of the last w"),
    Function("maximum", "window", ("x", "w"), "same", "largest sample of the last w"),
    Function("quantile", "window", ("x", "q", "w"), "same", "quantile q (0 to 1) of the samples of the last w"),
    Function("slope", "window", ("x", "w"), "per-second", "change per second, least squares over the last w"),
    Function("ewma", "window", ("x", "w"), "same", "exponentially weighted mean with the time constant w"),
    Function("jitter", "window", ("x", "w"), "same", "standard deviation over the last w"),
    Function("burst", "window", ("x", "w"), "one", "largest sample over the mean, in the last w"),
    Function(
        "change",
        "window",
        ("x", "recent", "past"),
        "one",
        "mean of the last `recent` over the mean of the `past` before it, minus 1; change(x, w) is change(x, w/4, w)",
        required=2,
    ),
    Function(
        "baseline_z",
        "baseline",
        ("x", "w"),
        "one",
        "distance from the entity's own healthy past in its standard deviations; w is the memory, 60 s unless told",
        required=1,
        defaults=(60.0,),
    ),
    Function(
        "drift",
        "baseline",
        ("x", "w"),
        "one",
        "x over the entity's own healthy past, minus 1; w is the memory, 60 s unless told",
        required=1,
        defaults=(60.0,),
    ),
    Function("peer_z", "peers", ("x",), "one", "x minus the median of the other peers, in their robust deviations"),
    Function("peer_ratio", "peers", ("x",), "one", "x over the median of the other peers"),
    Function("peer_excess", "peers", ("x",), "same", "x minus the median of the other peers"),
    Function("peer_highest", "peers", ("x",), "same", "largest x among the other peers"),
    Function("peer_spread", "peers", ("x",), "one", "largest minus smallest among the peers, over their median"),
    Function("share", "peers", ("x",), "one", "x over the sum of the peers, itself included"),
    Function("gini", "peers", ("x",), "one", "Gini coefficient among the peers: 0 all alike, near 1 one has all"),
    Function(
        "peers",
        "peers",
        (),
        "one",
        "number of peers that ever reported what the rule reads, itself included; in a comparison others may be there",
    ),
    Function("heard", "peers", ("x",), "one", "number of peers whose x is known now, itself included"),
    Function("highest", "reduce", ("x",), "same", "largest among the parts of the judged entity"),
    Function("lowest", "reduce", ("x",), "same", "smallest among the parts of the judged entity"),
    Function("total", "reduce", ("x",), "same", "sum over the parts of the judged entity"),
    Function("average", "reduce", ("x",), "same", "mean over the parts of the judged entity"),
    Function("middle", "reduce", ("x",), "same", "lower median over the parts of the judged entity"),
    Function(
        "complete",
        "reduce",
        ("x",),
        "truth",
        "yes where all parts of the judged entity have a value now, unknown where one has none: it may be the odd one",
    ),
    Function("front", "front", ("x",), "same", "value at the node that is the front end of the group or replica"),
    Function("known", "plain", ("any",), "truth", "yes where x has a value now, no where it has none; never unknown"),
    Function("age", "plain", ("signal",), "seconds", "seconds since the last sample"),
    Function("abs", "plain", ("x",), "same", "size without sign"),
    Function("min", "plain", ("x", "y"), "same", "the smaller of two"),
    Function("max", "plain", ("x", "y"), "same", "the larger of two"),
    Function("log10", "plain", ("x",), "one", "logarithm to the base of ten of a number without unit"),
    Function("speed", "topology", (), "speed", "speed of the port, in bytes per second"),
    Function("size", "topology", (), "one", "number of members of the group, replica or pool"),
    Function("bucket_quantile", "window", ("histogram", "q", "w"), "same", "quantile q of what the last w counted"),
    Function("bucket_mean", "window", ("histogram", "w"), "same", "mean of what the last w counted"),
)

FUNCTIONS: Mapping[str, Function] = {f.name: f for f in _TABLE}


def reference() -> str:
    """The table of functions for the language reference, in Markdown."""
    rows = [f"| `{f.name}({', '.join(f.params)})` | {_GIVES[f.gives]} | {f.about} |" for f in _TABLE]
    return "\n".join(["| function | gives | what |", "|---|---|---|", *rows])


_GIVES = {
    "same": "the unit of x",
    "one": "a number",
    "seconds": "s",
    "per-second": "the unit of x per second",
    "speed": "By/s",
    "truth": "yes or no",
}
