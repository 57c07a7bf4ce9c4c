"""What all tests share. The environment comes first: Ray, Transformers and Tokenizers read it as they are imported."""

import os
from pathlib import Path

import pytest

os.environ.update(
    {
        # A local Ray would otherwise write a token into the home folder, and other Rays would then ask for it.
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        # A dead node is noticed within two seconds instead of fifteen.
        "RAY_health_check_initial_delay_ms": "0",
        "RAY_health_check_period_ms": "500",
        "RAY_health_check_timeout_ms": "500",
        "RAY_health_check_failure_threshold": "3",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets, never part of the project; what needs it is skipped where it is absent."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("AL_RAY_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set AL_RAY_DATA to a folder that holds wikiqa/ and qqp/")
    return folder
