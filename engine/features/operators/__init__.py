"""The operators of the rule language, one class each. Every module of this package is imported with it.

An operator registers itself for its name (`protocol.register`); `protocol.Operator` states what the evaluator asks of
it. To add a function of the rule language, add its entry to `rules/functions.py` and its class to a module here.
"""

from importlib import import_module
from pkgutil import iter_modules

from skewscope.rules.functions import FUNCTIONS

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

_operators = import_module(f"{__name__}.protocol").OPERATORS
if _missing := sorted(set(FUNCTIONS) - set(_operators)):
    raise ImportError(f"functions of the rule language without a class in {__name__}: {', '.join(_missing)}")
