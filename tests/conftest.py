"""What every test may ask for."""

import os
from pathlib import Path

import pytest

root = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real recordings and facts, which is no part of the repository."""
    found = Path(os.environ.get("SKEWSCOPE_SHARED") or root.parent / "shared")
    if not found.is_dir():
        pytest.skip(f"no shared folder at {found} (set SKEWSCOPE_SHARED)")
    return found
