"""The command that shows reliability: samples of labelled recordings, kept once made, and a page with two curves."""

from pathlib import Path

import pytest

from bench import reliability
from skewscope.adapters.assessment.runner import AssessmentRun, FaultLabel, ReportedIncident

LABEL = FaultLabel("tp-straggler", "mild", ("n2",), 60.0, 100.0)


def run(folder: Path) -> AssessmentRun:
    """Returns a run with one symptom, whose cause is right where the folder is named so."""
    name = "tp-straggler" if folder.name == "right" else "pp-bubble"
    told = ReportedIncident("late-member", "n2", 65.0, 0.9, "", "", posterior=((name, 0.6),), none=0.4, is_symptom=True)
    return AssessmentRun(folder.name, 8, 100.0, (told,), (LABEL,))


def test_each_folder_is_run_once_and_the_page_has_both_curves(tmp_path, monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(reliability, "run_folder", lambda folder: ran.append(folder.name) or run(folder))
    arguments = ["one=a/right,a/wrong", "two=b/right", "--keep", str(tmp_path / "kept.json")]
    for _ in range(2):
        reliability.main([*arguments, "--write", str(tmp_path / "page.md"), "--calibrate", str(tmp_path / "c.json")])
    assert ran == ["right", "wrong", "right"]
    page = (tmp_path / "page.md").read_text()
    assert "| one | 2 | 2 |" in page
    assert page.count("Expected calibration error") == 2
    assert capsys.readouterr().out.count("## First candidates") == 2
    assert "root_scale" in (tmp_path / "c.json").read_text()


@pytest.mark.parametrize(("answer", "expected"), [("finding", 1), ("healthy", 0)])
def test_files_in_hand_are_labelled_by_what_is_expected_of_them(tmp_path, monkeypatch, answer, expected):
    (tmp_path / "expect.yaml").write_text(f"files: [a.log]\nanswer: {answer}\nany_of: [collective-hang, 'new: it']\n")
    monkeypatch.setattr(reliability.subprocess, "run", lambda *_, **__: type("Done", (), {"stdout": ""}))
    assert len(reliability.run_folder(tmp_path).labels) == expected
