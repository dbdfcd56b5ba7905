"""What an incident costs, in words and as a share. Pure."""

import re
from collections.abc import Iterable

from skewscope.engine.advice.incident_words import format_where
from skewscope.engine.model.incident import Incident
from skewscope.kb.model import Catalogue
from skewscope.kb.quantities import SHARE_EPSILON, format_change, format_factor, format_value, is_share

_SHARE_WORDS = (
    (re.compile(r"(?:share of )?time (?:in|for) which (.+)"), r"{} of the time \1"),
    (re.compile(r"share of time (.+)"), r"{} of the time \1"),
    (re.compile(r"share of (.+?) that (?!the )(.+)"), r"{} of \1 \2"),
    (re.compile(r"share of (.+)"), r"{} of \1"),
    (re.compile(r"time that (.+), as a share of (.+)"), r"for {} of the time of \2 \1"),
    (re.compile(r"(time .+?) spent (.+)"), r"{} of the \1 is spent \2"),
    (re.compile(r"(time of .+?) (?:that|for which) (.+)"), r"{} of the \1 \2"),
    (re.compile(r"((?:work|time) of .+)"), r"{} of the \1 is lost"),
    (re.compile(r"((?:tokens|rounds) of .+)"), r"{} of the \1 are lost"),
    (re.compile(r"((?:\w+ )?(?:segments|packets)) (retransmitted|dropped|sent again)(.*)"), r"{} of \1 are \2\3"),
    (re.compile(r"requests (?:without an answer|that get no answer)"), r"{} of the requests get no answer"),
    (re.compile(r"requests of (.+?) that (are .+)"), r"{} of the requests of \1 \2"),
    (re.compile(r"(.+) (below|beyond an even) (.+)"), r"\1 {} \2 \3"),
)
"""Metrics of which a share is lost, and the sentence with the share."""
_USER_VANTAGES = frozenset({"serving", "north-south"})
"""Where what users wait for is measured."""
_LATENCY = "latency"


def describe_metric(metric: str, catalogue: Catalogue) -> str:
    """Returns what an impact is of in words: the name of a signal, in small letters, or the words themselves."""
    known = catalogue.signals.get(metric)
    return f"{known.name[:1].lower()}{known.name[1:]}" if known else metric


def describe_size(incident: Incident) -> str:
    """Returns how large an impact is: `8.7→21.6 ms (2.5×)` of a change, `42 %` of a share; '' if it is not measured."""
    impact = incident.impact
    if impact.change is None or (impact.now is None and abs(impact.change) < SHARE_EPSILON):
        return ""
    if impact.now is None:
        return format_value(impact.change, impact.unit, share=True, signed=incident.is_symptom or impact.unit != "1")
    if impact.before is None:
        return format_value(impact.now, impact.level_unit, share=is_share(impact.metric))
    levels = format_change(impact.before, impact.now, impact.level_unit, share=is_share(impact.metric))
    is_multiple = impact.change >= 1
    factor = (
        format_factor(1 + impact.change) if is_multiple else format_value(impact.change, "1", share=True, signed=True)
    )
    return f"{levels} ({factor})"


def describe_cost(incident: Incident, catalogue: Catalogue) -> str:
    """Returns `time of a round 8.7→21.6 ms (2.5×)` or `60 % of the work of its group is lost`; '' if not measured."""
    size, impact = describe_size(incident), incident.impact
    if not size:
        return ""
    share = _describe_share(incident, size)
    return share or f"{describe_metric(impact.metric, catalogue)} {size}"


def describe_cost_by_size(incident: Incident, catalogue: Catalogue) -> str:
    """Returns `8.7→21.6 ms (2.5×) time of a round`, the number first: it is not lost where the end is cut."""
    size = describe_size(incident)
    if not size:
        return ""
    return _describe_share(incident, size) or f"{size} {describe_metric(incident.impact.metric, catalogue)}"


def _describe_share(incident: Incident, size: str) -> str:
    """Returns a sentence where the impact is a share of something, with the place in it; '' elsewhere."""
    impact = incident.impact
    if impact.now is not None or impact.unit != "1" or not 0 <= (impact.change or 0.0) <= 1 or incident.is_symptom:
        return ""
    for pattern, words in _SHARE_WORDS:
        if found := pattern.fullmatch(impact.metric):
            text = found.expand(words.replace("{}", "{0}")).format(size)
            own = re.sub(f"this {incident.kind}\\b", lambda _: format_where(incident), text, flags=re.IGNORECASE)
            return re.sub(r"\bthis (?=group|node|replica)", "its ", own)
    return ""


def find_user_cost(incidents: Iterable[Incident], catalogue: Catalogue) -> Incident | None:
    """Returns the incident in which users lose most, by a latency of requests; None where none has such a cost."""
    felt = [one for one in incidents if one.impact.lost_share and _is_felt(one.impact.metric, catalogue)]
    return max(felt, key=lambda one: one.impact.lost_share or 0.0, default=None)


def _is_felt(metric: str, catalogue: Catalogue) -> bool:
    """Returns whether a signal is a time that users wait."""
    signal = catalogue.signals.get(metric)
    if signal is None or signal.judged is None:
        return False
    return signal.judged.role == _LATENCY and _USER_VANTAGES.issuperset(signal.vantage)


def describe_normal(incident: Incident, catalogue: Catalogue) -> str:
    """Returns `Normal: time of a round 8.7 ms.`, '' where the normal level was not measured."""
    impact = incident.impact
    if impact.before is None:
        return ""
    level = format_value(impact.before, impact.level_unit, share=is_share(impact.metric))
    return f"Normal: {describe_metric(impact.metric, catalogue)} {level}."
