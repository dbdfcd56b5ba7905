from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden-update", action="store_true", help="Replace the golden files by the current output.")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with its golden file, or write it with --golden-update."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        if request.config.getoption("--golden-update", default=False):
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path.name} is missing: run pytest tests/tui --golden-update and look at it"
        assert text == path.read_text(encoding="utf-8")

    return check
