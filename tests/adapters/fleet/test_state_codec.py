"""What the state of a shard may hold."""

import pytest

from skewscope.adapters.fleet.state_codec import is_known
from skewscope.engine.features.operators.protocol import OPERATORS

CLASSES = {found.__qualname__: found for found in OPERATORS.values()}


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_state_may_hold_every_operator(name):
    assert is_known(CLASSES[name].__module__, name)
