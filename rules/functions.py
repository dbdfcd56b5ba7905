"""The functions of the rule language, each declared with typed parameters, the unit of its result and its form.

To add one, add its `RuleFunction` to the table and its class to `engine/features/operators`. A declaration that the
checks of calls do not support is refused on import, with the reason.

The form states how the parameters are used:

| form | measured parameters | constants | computes |
|---|---|---|---|
| `elementwise` | one or more `value` or `operand`; or one of another type | any | entity by entity |
| `window` | one `value`, `counter` or `histogram` | any; the last is a `window` | a statistic of the last samples |
| `baseline` | one `value` | one `window`: the memory | a value beside its entity's own healthy past |
| `peers` | one `value`, or none | any except windows | a value beside those of the entity's peers |
| `reduce` | one `value` | any except windows | one value from those of an entity's parts |
| `front` | one `value` | none | the value at the front-end node |
| `topology` | none; `kinds` lists the kinds of entity that have the value | none | what the topology states |

`signatures.py` explains the types of parameters, the results and the other fields.
"""

from collections.abc import Mapping

from skewscope.rules.signatures import Parameter, RuleFunction

X, Y = Parameter("x", "value"), Parameter("y", "value")
COUNTER, HISTOGRAM = Parameter("counter", "counter"), Parameter("histogram", "histogram")
Q, W = Parameter("q", "quantile"), Parameter("w", "window")
MEMORY = Parameter("w", "window", default=60.0)
OPERANDS = Parameter("x", "operand"), Parameter("y", "operand")

_TABLE = (
    RuleFunction("rate", "window", (COUNTER, W), "per-second", "increase of a counter per second over the last w"),
    RuleFunction("mean", "window", (X, W), "same", "mean of the samples of the last w"),
    RuleFunction("minimum", "window", (X, W), "same", "smallest sample of the last w"),
    RuleFunction("maximum", "window", (X, W), "same", "largest sample of the last w"),
    RuleFunction("quantile", "window", (X, Q, W), "same", "quantile q (0 to 1) of the samples of the last w"),
    RuleFunction("slope", "window", (X, W), "per-second", "change per second, least squares over the last w"),
    RuleFunction("ewma", "window", (X, W), "same", "exponentially weighted mean with the time constant w"),
    RuleFunction("jitter", "window", (X, W), "same", "standard deviation over the last w"),
    RuleFunction("burst", "window", (X, W), "one", "largest sample over the mean, in the last w"),
    RuleFunction("samples", "window", (X, W), "one", "number of samples in the last w"),
    RuleFunction(
        "change",
        "window",
        (X, Parameter("recent", "window"), Parameter("past", "window")),
        "one",
        "mean of the last `recent` over the mean of the `past` before it, minus 1; change(x, w) is change(x, w/4, w)",
        single_window=(0.25, 1.0),
    ),
    RuleFunction(
        "baseline_z",
        "baseline",
        (X, MEMORY),
        "one",
        "distance from the entity's own healthy past in its standard deviations; w is the memory, 60 s by default",
    ),
    RuleFunction(
        "drift",
        "baseline",
        (X, MEMORY),
        "one",
        "x over the entity's own healthy past, minus 1; w is the memory, 60 s by default",
    ),
    RuleFunction("peer_z", "peers", (X,), "one", "x minus the median of the other peers, in their robust deviations"),
    RuleFunction("peer_ratio", "peers", (X,), "one", "x over the median of the other peers"),
    RuleFunction("peer_excess", "peers", (X,), "same", "x minus the median of the other peers"),
    RuleFunction("peer_median", "peers", (X,), "same", "median of the other peers"),
    RuleFunction("peer_highest", "peers", (X,), "same", "largest x among the other peers"),
    RuleFunction("peer_lowest", "peers", (X,), "same", "smallest x among the other peers"),
    RuleFunction("peer_spread", "peers", (X,), "one", "largest minus smallest among the peers, over their median"),
    RuleFunction("share", "peers", (X,), "one", "x over the sum of the peers, itself included"),
    RuleFunction(
        "gini",
        "peers",
        (X,),
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
    RuleFunction("heard", "peers", (X,), "one", "number of peers whose x is known now, itself included"),
    RuleFunction("highest", "reduce", (X,), "same", "largest among the parts of the judged entity"),
    RuleFunction("lowest", "reduce", (X,), "same", "smallest among the parts of the judged entity"),
    RuleFunction("total", "reduce", (X,), "same", "sum over the parts of the judged entity"),
    RuleFunction("average", "reduce", (X,), "same", "mean over the parts of the judged entity"),
    RuleFunction("middle", "reduce", (X,), "same", "lower median over the parts of the judged entity"),
    RuleFunction(
        "complete",
        "reduce",
        (X,),
        "truth",
        "yes where all parts of the judged entity have a value now, else unknown",
    ),
    RuleFunction("front", "front", (X,), "same", "value at the node that is the front end of the group or replica"),
    RuleFunction(
        "known",
        "elementwise",
        (Parameter("any", "any"),),
        "truth",
        "yes where x has a value now, no where it has none; never unknown",
    ),
    RuleFunction(
        "reading",
        "elementwise",
        (COUNTER,),
        "same",
        "newest reading of a counter, to compare members that count alike",
    ),
    RuleFunction(
        "standing",
        "elementwise",
        (COUNTER,),
        "s",
        "seconds for which a counter has stood still by its readings; unknown where it has never changed",
    ),
    RuleFunction("age", "elementwise", (Parameter("signal", "signal"),), "s", "seconds since the last sample"),
    RuleFunction("abs", "elementwise", (X,), "same", "size without sign"),
    RuleFunction("min", "elementwise", OPERANDS, "same", "the smaller of two"),
    RuleFunction("max", "elementwise", OPERANDS, "same", "the larger of two"),
    RuleFunction(
        "coalesce",
        "elementwise",
        (X, Y),
        "same",
        "x where it is known, else y; unknown where both are",
        alternatives=True,
    ),
    RuleFunction(
        "ratio",
        "elementwise",
        OPERANDS,
        "one",
        "x over y as a plain number, whatever each of them counts; unknown where y is zero",
        units="comparable",
    ),
    RuleFunction(
        "number_of", "elementwise", (X,), "number", "x without its counted unit: packets per second become 1/s"
    ),
    RuleFunction(
        "log10", "elementwise", (X,), "one", "logarithm to the base of ten of a number without unit", units="none"
    ),
    RuleFunction("speed", "topology", (), "By/s", "speed of the port, in bytes per second", kinds=("port",)),
    RuleFunction(
        "size",
        "topology",
        (),
        "one",
        "number of members of the group, replica or pool",
        kinds=("group", "replica", "pool"),
    ),
    RuleFunction(
        "bucket_quantile", "window", (HISTOGRAM, Q, W), "same", "quantile q of the observations of the last w"
    ),
    RuleFunction("bucket_mean", "window", (HISTOGRAM, W), "same", "mean of the observations of the last w"),
)

FUNCTIONS: Mapping[str, RuleFunction] = {function.name: function for function in _TABLE}
if len(FUNCTIONS) < len(_TABLE):
    raise ValueError("two functions of the rule language have one name")
