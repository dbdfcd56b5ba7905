"""Every way to damage the catalogue that a machine can know is told: file, line, what was found, what was expected."""

import pytest
from kb_damage import CLEAN, FLAP, ISOLATE, LAG, LOSS, STRAGGLER, THROTTLE, WANG, Damage, copied, replaced, written

from skewscope.kb.lint import lint, lints
from skewscope.kb.load import load

BACK = "{condition: fabric-loss, why: For the sake of this test it does.}"
SAME = "{condition: fabric-loss, separate_by: For the sake of this test they differ.}"
ITSELF = "{condition: fabric-loss, why: For the sake of this test it does.}"
COST = "cost: The bandwidth of that link; the remaining paths carry more."
FRONT = "Collectives do not cross the front-end port; only slower streams do.,"
RAILS = "needs: [wire.onset_lag, wire.last_sender_share]"
JUDGED = 'basis: "judgement: routing round a link is what a fabric can do at once"'

SHAPE = {
    "a required field gone": Damage(LOSS, "kind: cause\n", "", "id:", "no value", "'kind'"),
    "a required field inside a list gone": Damage(
        LOSS, "  source: wang2019gbn\n", "", "- text: With go-back-N", "no value", "'source'"
    ),
    "a misspelt field": Damage(LOSS, "\nwhy:\n", "\nwyh:\n", "wyh", "'wyh'", "what, why", "'why'"),
    "a misspelt field inside a list": Damage(LOSS, "  scale: FP", "  scael: FP", "scael", "'scael'", "seen", "'scale'"),
    "a field nobody knows": Damage(ISOLATE, "risk:", "weather: fine\nrisk:", "weather", "'weather'", "one of actor"),
    "a number for a text": Damage(LOSS, "name: Loss and", "name: 5 #", "name: 5", "(5)", "text", "quotes"),
    "a yes for a word": Damage(ISOLATE, "risk: medium", "risk: yes", "risk", "True", "low, medium, high"),
    "nothing for a word": Damage(ISOLATE, "risk: medium", "risk:", "risk", "nothing", "low, medium, high"),
    "a day without quotes": Damage(
        LOSS, "grade: B", "grade: B\nwithdrawn: 2025-01-01", "withdrawn", "date", "text", "quotes"
    ),
    "a text for a list": Damage(LOSS, "aliases: [", "aliases: RDMA #", "aliases", "'RDMA'", "a list"),
    "a list for a mapping": Damage(LOSS, "paper_row: {", "paper_row: [] #", "paper_row", "a list", "a mapping"),
    "an empty text": Damage(ISOLATE, COST, "cost: ''", "cost", "0 characters", "at least 10"),
    "a text without end": Damage(ISOLATE, "cost: The", f"cost: {'x' * 800} The", "cost", "characters", "at most 700"),
    "a line break in a text": Damage(ISOLATE, COST, 'cost: "One line\\nand another."', "cost", "a line break", "plain"),
    "a text that steers a terminal": Damage(
        ISOLATE, COST, 'cost: "Turns all \\e[31mred."', "cost", "does not print", "plain text"
    ),
    "a word that is no choice": Damage(
        LOSS, "group: east-west", "group: east-wset", "group", "'east-wset'", "north-south", "'east-west'"
    ),
    "a type nobody knows": Damage(LAG, "type: gauge", "type: guage", "type", "'guage'", "counter", "'gauge'"),
    "a list without items": Damage(LAG, "[east-west]", "[]", "vantage", "0 items", "at least 1"),
    "an item told twice": Damage(LAG, "[east-west]", "[east-west, east-west]", "vantage", "second time", "once"),
    "an id that is none": Damage(ISOLATE, "id: isolate-link", "id: Isolate_Link", "id", "Isolate_Link", "text like"),
    "a year far away": Damage(WANG, "year: 2019", "year: 20190", "year", "20190", "maximum 2100"),
    "a number that is none": Damage(LAG, "fold:", "window: .nan\nfold:", "window", "nan", "a finite number"),
    "a number without end": Damage(LAG, "fold:", "window: .inf\nfold:", "window", "inf", "a finite number"),
    "no time at all": Damage(LAG, "fold:", "window: 0\nfold:", "window", "(0)", "exclusiveMinimum 0"),
    "a bit of no register": Damage(THROTTLE, "256}", f"1{'0' * 70}}}", "hw_power_brake", "whole number", "maximum"),
    "a source without a locator": Damage(
        WANG, "locator: doi:10.1109/ICCCN.2019.8846946\n", "", "id:", "no value", "the field 'locator'"
    ),
    "a mitigation without an undo": Damage(ISOLATE, "undo:", "ondo:", "ondo", "'ondo'", "undo", "Did you mean 'undo'?"),
}

YAML = {
    "a key told twice": Damage(
        ISOLATE, "risk: medium", "risk: medium\nrisk: low", "risk: low", "'risk' for the second", "one YAML"
    ),
    "a tab": Damage(ISOLATE, "risk: medium", "risk: medium\n\tx: 1", "\tx", "tab", "one YAML", "never tabs"),
    "a bracket left open": Damage(ISOLATE, "actor: fabric", "actor: [fabric", "effect", "no YAML", "one YAML", "brackets"),
    "a tag that makes an object": Damage(
        ISOLATE, "risk: medium", "risk: !!python/object/apply:os.getcwd []", "risk", "tag", "one YAML"
    ),
    "a tag on the wrong text": Damage(ISOLATE, "risk: medium", 'risk: !!int ""', "risk", "tag", "one YAML"),
    "an alias": Damage(
        LOSS, "aliases: [RDMA", "x: &a [one]\ny: *a\naliases: [RDMA", "x:", "an alias", "one YAML"
    ),
    "a bomb of aliases": Damage(
        ISOLATE, "risk: medium", "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\nrisk: low", "a: &a", "an alias", "one YAML"
    ),
    "an alias of nothing": Damage(ISOLATE, "risk: medium", "risk: *nobody", "risk", "alias", "one YAML"),
    "a nest too deep": Damage(ISOLATE, "risk: medium", f"risk: {'[' * 99}{']' * 99}", "risk", "deeper", "one YAML"),
    "a second document": Damage(ISOLATE, "risk: medium", "---\nrisk: medium", "---", "another document", "one YAML"),
    "a key that is no text": Damage(ISOLATE, "risk: medium", "5: medium", "5:", "no plain text", "one YAML"),
    "a number of a thousand digits": Damage(ISOLATE, "risk: medium", f"risk: 0x{'f' * 999}", "risk", "digits", "one YAML"),
    "a day that is none": Damage(ISOLATE, "risk: medium", "risk: 2001-99-99", "risk", "month", "one YAML"),
    "a control character": Damage(ISOLATE, "risk: medium", "risk: \x07", "risk", "does not print", "one YAML"),
}

LINKS = {
    "an id that is not the file's name": Damage(
        LOSS, "id: fabric-loss", "id: fabric-lost", "id", "'fabric-lost'", "'fabric-loss', the name of the file", "Rename"
    ),
    "a mitigation that is not there": Damage(
        LOSS, "[isolate-link,", "[isolate-lnk,", "mitigations", "'isolate-lnk'", "the mitigations", "'isolate-link'"
    ),
    "a signal that is not there": Damage(
        LOSS, "[wire.retransmit_ratio,", "[wire.retransmt_ratio,", "signature", "retransmt", "the signals", "retransmit"
    ),
    "a signal it is seen by that is not there": Damage(
        STRAGGLER, RAILS, "needs: [wire.onset_lagg]", "[wire.onset_lagg]", "lagg", "signals", "'wire.onset_lag'"
    ),
    "a claim's source that is not there": Damage(
        LOSS, "source: wang2019gbn", "source: wang2019gbm", "source", "wang2019gbm", "the sources", "'wang2019gbn'"
    ),
    "a mitigation's source that is not there": Damage(
        CLEAN, "source: wan2025byterobust", "source: wan2025bytrobust", "  source", "byt", "sources", "'wan2025byterobust'"
    ),
    "a basis' source that is not there": Damage(
        LOSS, '"source: li2025dcp;', '"source: li2025dpc;', "li2025dpc", "li2025dpc", "the sources", "'li2025dcp'"
    ),
    "an effect that is not there": Damage(
        LOSS, "- condition: tp-straggler", "- condition: tp-stragler", "tp-stragler", "", "conditions", "'tp-straggler'"
    ),
    "a cause that is not there": Damage(
        LOSS, "effects:\n", "causes:\n- {condition: link-flop, why: It does.}\neffects:\n", "link-flop", "", "", "'link-flap'"
    ),
    "a look-alike that is not there": Damage(
        LOSS, "- condition: link-flap", "- condition: link-flop", "link-flop", "", "conditions", "'link-flap'"
    ),
    "an effect of itself": Damage(
        LOSS, "effects:\n", f"effects:\n- {ITSELF}\n", ITSELF, "'fabric-loss'", "another condition", "not its own"
    ),
    "a circle of causes": Damage(
        STRAGGLER, "effects:\n", f"effects:\n- {BACK}\n", "effects", "the circle fabric-loss -> tp-straggler", "without"
    ),
    "an edge told at both ends": Damage(
        STRAGGLER, "effects:\n", f"causes:\n- {BACK}\neffects:\n", BACK, "for the second time", "each link once"
    ),
    "a look-alike told at both ends": Damage(
        FLAP, "lookalikes_outside:\n", f"lookalikes:\n- {SAME}\nlookalikes_outside:\n", SAME, "already", "once", "one end"
    ),
}

SENSE = {
    "a unit nobody knows": Damage(LAG, "unit: s\n", "unit: parsec\n", "unit", "'parsec'", "a known unit"),
    "a unit misspelt": Damage(LAG, "unit: s\n", "unit: MiBs\n", "unit", "'MiBs'", "a known unit", "'MiBy'"),
    "a width of what is no counter": Damage(LAG, "fold:", "width_bits: 32\nfold:", "width", "of a gauge", "none"),
    "a range the wrong way round": Damage(LAG, "fold:", "range: [5, 1]\nfold:", "range", "from 5 to 1", "smaller one"),
    "a scale of an exporter without a name": Damage(
        LAG, "fold:", "scale: {skewscope_agnt: 2}\nfold:", "scale", "agnt", "its sources", "'skewscope_agent'"
    ),
    "a doubt about an exporter without a name": Damage(
        LAG, "fold:", "unverified: [ethtool]\nfold:", "unverified", "'ethtool'", "one of its sources"
    ),
    "a name of our own that is not made from the id": Damage(
        LAG, "[skewscope_wire_onset_lag]", "[skewscope_lag]", "skewscope_agent:", "skewscope_lag", "skewscope_wire_onset_lag"
    ),
    "a locator that leads nowhere": Damage(
        WANG, "doi:10.1109/ICCCN.2019.8846946", "somewhere", "locator", "'somewhere'", "can be found", "doi:"
    ),
    "a basis without a reason": Damage(ISOLATE, JUDGED, "basis: judgement", "basis", "'judgement'", "'judgement: reason'"),
    "a claim seen better than its source": Damage(
        LOSS, "  seen: abstract", "  seen: full text", "seen", "'full text' of a source", "no more than", "how the claim"
    ),
    "a grade without claims": Damage(LOSS, "impacts:\n", "impacts: []\nnotes:\n", "grade", "B without", "claims")
    if False
    else Damage("conditions/python-gc-pause.yaml", "grade: A", "grade: A", "grade", "", ""),
}
