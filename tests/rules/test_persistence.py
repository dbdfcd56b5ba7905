"""For how long, at least, a state has held when an expression is yes."""

import pytest

from skewscope.kb.loader import catalogue
from skewscope.rules.expression import Peers
from skewscope.rules.language import ExpressionContext, compile_expression
from skewscope.rules.persistence import find_persistence


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("serve.running > 2*requests", 0.0),
        ("minimum(serve.running, 60*s) >= 2*requests", 60.0),
        ("2*requests <= minimum(serve.running, 60*s)", 60.0),
        ("maximum(serve.kv_usage, 40*s) < 80*percent", 40.0),
        ("minimum(serve.kv_usage, 40*s) < 80*percent", 0.0),
        ("maximum(serve.running, 60*s) > 2*requests", 0.0),
        ("minimum(serve.running, 60*s) > peer_lowest(serve.running)", 0.0),
        ("rate(serve.success, 30*s) <= 0*requests/s", 30.0),
        ("rate(serve.success, 30*s) <= 1*requests/s", 0.0),
        ("standing(serve.success) >= 20*s", 20.0),
        ("age(serve.running) > 20*s", 20.0),
        ("age(serve.running) - age(serve.gpu_memory) > 40*s", 40.0),
        ("age(serve.running) < 20*s", 0.0),
        ("front(age(wire.open_streams)) > 3*s", 3.0),
        ("highest(minimum(gpu.util, 5*s)) > 90*percent", 5.0),
        ("average(minimum(gpu.util, 5*s)) > 90*percent", 0.0),
        ("age(serve.running) > 20*s and rate(serve.success, 30*s) <= 0*requests/s", 30.0),
        ("age(serve.running) > 20*s or rate(serve.success, 30*s) <= 0*requests/s", 20.0),
        ("not (age(serve.running) < 20*s)", 0.0),
    ],
)
def test_what_a_window_or_an_age_shows_has_held_as_long(text, seconds):
    expr, problems = compile_expression(
        text, ExpressionContext(catalogue().signals, "replica", Peers("replica", "pool"))
    )
    assert expr is not None, problems
    assert find_persistence(expr) == seconds
