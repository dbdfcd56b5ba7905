"""What a controller says of symptoms: counted by themselves, and no reason for a scheduler to act."""

from dataclasses import replace

from skewscope.adapters.controller.health import assess_health
from skewscope.adapters.controller.incident_metrics import metric_families
from skewscope.adapters.controller.tick_pipeline import TickResult
from skewscope.adapters.runtime.runtime import Snapshot
from skewscope.engine.model.incident import Explanation
from tests.adapters.notify.incidents import fleet, incident, symptom


def result(*incidents):
    return TickResult(Snapshot(9.0, 0.0, 9.0, incidents, (), ()), (), 1, 1, 0, 0, {"n3": 1.0})


def test_a_symptom_lowers_no_health():
    found = assess_health(result(symptom(3)), fleet(), "node", "n3")
    assert (found.score, found.reasons) == (1.0, ())
    assert assess_health(result(incident(3), symptom(3)), fleet(), "node", "n3").reasons == (incident(3),)


def test_metrics_tell_symptoms_from_diagnoses():
    explained = replace(symptom(4), id="i-4", explained_by=Explanation("i-3", "caused"))
    families = {
        name: list(samples) for name, _, _, samples in metric_families(result(incident(3), symptom(3), explained))
    }
    states = [(labels["condition"], labels["state"]) for labels, _ in families["skewscope_incident"]]
    assert states == [("tp-straggler", "firing"), ("slow-steps", "symptom"), ("slow-steps", "explained")]
