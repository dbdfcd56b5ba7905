"""Evidence in plain words: `mean over 4 s of the last sender's share is above 60 %`. Pure; any text is taken."""

import ast
from collections.abc import Callable, Mapping

from skewscope.rules.parsing import ExpressionProblem, dotted_name, parse_syntax
from skewscope.tui.render.expression_text import format_expression, split_definitions

SignalNames = Callable[[str], str]
"""Returns the plain name of a signal by its id, '' for an unknown one."""

COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Gt: "is above",
    ast.GtE: "is at least",
    ast.Lt: "is below",
    ast.LtE: "is at most",
    ast.Eq: "is",
    ast.NotEq: "is not",
}
MEASURES: Mapping[str, str] = {
    "peer_z": "{0}, against the spread of its peers,",
    "peer_ratio": "{0}, as a multiple of its peers',",
    "peer_excess": "{0}, beyond that of its peers,",
    "peer_median": "the peers' median of {0}",
    "peer_highest": "the peers' highest {0}",
    "peer_lowest": "the peers' lowest {0}",
    "peer_spread": "the spread of {0} among the peers",
    "own_z": "{0}, against its usual spread,",
    "change": "the change of {0} within {1}",
    "mean": "the mean over {1} of {0}",
    "minimum": "the lowest {0} within {1}",
    "maximum": "the highest {0} within {1}",
    "rate": "{0} per second, over {1},",
    "jitter": "the jitter of {0} over {1}",
    "burst": "the peak of {0} over its mean, within {1},",
    "slope": "the trend of {0} over {1}",
    "share": "the share of {0} among its peers",
    "age": "the age of {0}",
    "abs": "{0}, either way,",
    "known": "{0} is measured",
    "highest": "the highest {0} of its parts",
    "lowest": "the lowest {0} of its parts",
    "total": "the sum of {0} over its parts",
    "average": "the mean of {0} over its parts",
    "front": "{0} at the front end",
}
"""Functions in words; {0} is what they measure, {1} their window. Others are named by their own word."""
ARITHMETIC: Mapping[type[ast.operator], str] = {
    ast.Add: "plus",
    ast.Sub: "minus",
    ast.Mult: "times",
    ast.Div: "over",
    ast.Pow: "to the power",
}
MAX_LENGTH = 300


def evidence_sentence(text: str, name_of: SignalNames) -> str:
    """Returns an expression in plain words; the expression itself where it cannot be told in some words.

    Args:
        text: the expression of an evidence item, with its lets.
        name_of: names the signals.
    """
    expression, lets = split_definitions(text)
    tree = parse_syntax(expression)
    if isinstance(tree, ExpressionProblem):
        return text
    try:
        said = _Speaker(name_of, frozenset(lets)).say(tree)
    except (LookupError, RecursionError):
        return format_expression(text)
    if len(said) > MAX_LENGTH:
        return format_expression(expression)
    begins_with_id = "." in said.partition(" ")[0]
    return said if begins_with_id else said[:1].upper() + said[1:]


class _Speaker:
    """Says the parts of one expression."""

    def __init__(self, name_of: SignalNames, lets: frozenset[str]) -> None:
        self._name_of, self._lets = name_of, lets

    def say(self, node: ast.expr) -> str:
        """Returns a part in words; raises LookupError for one that has none."""
        if signal := dotted_name(node):
            return _lower_first(self._name_of(signal)) or signal
        if isinstance(node, ast.Compare):
            return self._say_comparison(node)
        if isinstance(node, ast.Call):
            return self._say_call(node)
        if isinstance(node, ast.BoolOp | ast.BinOp | ast.UnaryOp):
            return self._say_operation(node)
        return self._say_atom(node)

    def _say_atom(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return node.id.replace("_", " ")
        if isinstance(node, ast.Subscript):
            return self.say(node.value)
        if isinstance(node, ast.Constant):
            return format(node.value, "g") if isinstance(node.value, int | float) else str(node.value)
        raise LookupError(type(node).__name__)

    def _say_operation(self, node: ast.BoolOp | ast.BinOp | ast.UnaryOp) -> str:
        if isinstance(node, ast.BoolOp):
            word = " and " if isinstance(node.op, ast.And) else " or "
            return word.join(map(self.say, node.values))
        if isinstance(node, ast.UnaryOp):
            return f"not: {self.say(node.operand)}" if isinstance(node.op, ast.Not) else f"−{self.say(node.operand)}"
        return _quantity(node) or " ".join((self.say(node.left), ARITHMETIC[type(node.op)], self.say(node.right)))

    def _say_comparison(self, node: ast.Compare) -> str:
        parts = [self.say(node.left)]
        for op, side in zip(node.ops, node.comparators, strict=True):
            parts += [COMPARISONS[type(op)], self.say(side)]
        return " ".join(parts)

    def _say_call(self, node: ast.Call) -> str:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        parts = [self.say(part) for part in node.args]
        template = MEASURES.get(name, "")
        if template and len(parts) > template.count("{"):
            template = ""
        if template and parts and len(parts) >= 1 + ("{1}" in template):
            return template.format(*parts)
        return f"{name.replace('_', ' ')} of {', '.join(parts)}" if parts else name.replace("_", " ")


def _lower_first(name: str) -> str:
    """Returns a name as it stands within a sentence; abbreviations keep their capitals."""
    return name if name[1:2].isupper() or not name else name[0].lower() + name[1:]


def _quantity(node: ast.BinOp) -> str:
    """Returns `60 %` of a number times a unit, '' of anything else."""
    number, sign = node.left, ""
    if isinstance(number, ast.UnaryOp) and isinstance(number.op, ast.USub):
        number, sign = number.operand, "−"
    if not (isinstance(node.op, ast.Mult) and isinstance(number, ast.Constant) and isinstance(node.right, ast.Name)):
        return ""
    unit = "%" if node.right.id == "percent" else node.right.id
    return f"{sign}{number.value:g} {unit}" if isinstance(number.value, int | float) else ""
