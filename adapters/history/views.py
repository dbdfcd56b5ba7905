"""Ready views of a history: what each answers, and its SQL over the tables."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HistoryView:
    """A ready view."""

    about: str
    """What it answers."""
    sql: str


VIEWS: Mapping[str, HistoryView] = {
    "symptoms": HistoryView(
        "what was abnormal without a rule that names its cause",
        "SELECT recording, id, condition AS symptom, kind, entity, node, rack, opened_at, resolved_at, lasted_s,"
        " severity, confidence, candidates, summary, explained_by, label FROM incidents WHERE category = 'symptom'",
    ),
    "diagnoses": HistoryView(
        "diagnoses that nothing else explains",
        "SELECT * FROM incidents WHERE is_root",
    ),
    "worst_nodes": HistoryView(
        "nodes by how often and for how long they were at fault",
        "SELECT node, any_value(rack) AS rack, count(*) AS diagnoses, approx_count_distinct(condition) AS conditions,"
        " sum(lasted_s) / 3600 AS hours, sum(lost_gpu_hours) AS lost_gpu_hours, max(opened_at) AS last"
        " FROM diagnoses WHERE node IS NOT NULL GROUP BY node ORDER BY diagnoses DESC, hours DESC, node",
    ),
    "mean_time_to_detect": HistoryView(
        "by condition: labelled faults, how many were found, and how long after they began",
        "SELECT condition, count(*) AS faults, count(delay_s) AS found, count(delay_s) / count(*) AS recall,"
        " avg(delay_s) AS mean_s, approx_quantile(delay_s, 0.5) AS median_s, max(delay_s) AS longest_s"
        " FROM faults GROUP BY condition ORDER BY condition",
    ),
    "repeat_offenders": HistoryView(
        "a condition that came back at the same place, with the mean time between",
        "SELECT entity, any_value(kind) AS kind, condition, count(*) AS times, min(opened_at) AS first,"
        " max(opened_at) AS last, (epoch(max(opened_at)) - epoch(min(opened_at))) / (count(*) - 1) / 3600"
        " AS hours_between, sum(lost_gpu_hours) AS lost_gpu_hours"
        " FROM diagnoses GROUP BY entity, condition HAVING count(*) > 1"
        " ORDER BY times DESC, last DESC, entity, condition",
    ),
    "cost": HistoryView(
        "by condition: what it cost in GPU hours, where its impact was measured",
        "SELECT condition, count(*) AS diagnoses, count(lost_gpu_hours) AS measured,"
        " sum(lost_gpu_hours) AS lost_gpu_hours, sum(lasted_s * hit_gpus) / 3600 AS hit_gpu_hours"
        " FROM diagnoses GROUP BY condition"
        " ORDER BY lost_gpu_hours DESC NULLS LAST, hit_gpu_hours DESC, condition",
    ),
    "false_alarms": HistoryView(
        "by rule: diagnoses that labels call right or wrong",
        "SELECT rule, count(*) AS diagnoses, count(*) FILTER (label = 'right') AS correct,"
        " count(*) FILTER (label = 'wrong') AS wrong FROM diagnoses WHERE label IS NOT NULL"
        " GROUP BY rule ORDER BY wrong DESC, rule",
    ),
    "by_week": HistoryView(
        "diagnoses and lost GPU hours, week by week",
        # Weeks begin on Monday, the fifth day of 1970. Numbers group much faster than calendars.
        "SELECT to_timestamp(number * 604800 + 345600) AS week, condition, diagnoses, lost_gpu_hours FROM ("
        "SELECT (epoch_us(opened_at) - 345600000000) // 604800000000 AS number, condition, count(*) AS diagnoses,"
        " sum(lost_gpu_hours) AS lost_gpu_hours FROM diagnoses GROUP BY ALL) ORDER BY week, condition",
    ),
    "by_node_and_day": HistoryView(
        "diagnoses and lost GPU hours of each node, day by day",
        "SELECT node, epoch_us(opened_at) // 86400000000 AS day, condition, count(*) AS diagnoses,"
        " sum(lost_gpu_hours) AS lost_gpu_hours FROM diagnoses WHERE node IS NOT NULL"
        " GROUP BY ALL ORDER BY node, day, condition",
    ),
    "by_rack": HistoryView(
        "diagnoses and lost GPU hours, rack by rack",
        "SELECT coalesce(rack, 'unknown') AS rack, count(*) AS diagnoses, sum(lost_gpu_hours) AS lost_gpu_hours"
        " FROM diagnoses GROUP BY ALL ORDER BY diagnoses DESC, rack",
    ),
}
"""By name; later ones may use earlier ones. The tables, such as `incidents` and `coverage`, are views of the files."""
