"""The table of providers: what an arm may name, and that nothing is loaded before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from canaryd.errors import ConfigError
from canaryd.providers import PROVIDERS, build_provider
from canaryd.providers.base import Surroundings


def test_an_unknown_provider_is_refused_with_the_known_ones(make_arm):
    with pytest.raises(ConfigError, match=f"no provider opnai; allowed: .*{', '.join(sorted(PROVIDERS))}"):
        build_provider(make_arm("opnai"), Surroundings(env={}))


def test_an_unknown_parameter_is_refused_with_the_known_ones(make_arm):
    with pytest.raises(ConfigError, match=r"'simulated' has no params\.temprature; allowed: .*temperature"):
        build_provider(make_arm("simulated", params={"temprature": 1}), Surroundings(env={}))


def test_a_provider_whose_package_is_missing_says_what_to_install(make_arm, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "canaryd.providers.openai", raising=False)
    with pytest.raises(ConfigError, match=r"needs the package 'openai'.*install canaryd\[openai\]"):
        build_provider(make_arm("openai"), Surroundings(env={}))


def test_no_sdk_is_loaded_by_the_table_or_by_another_provider():
    program = (
        "import sys; from canaryd.providers import build_provider; from canaryd.providers.base import Surroundings;"
        "from canaryd.records import Arm;"
        "build_provider(Arm('a', 'tracked', 'simulated', 'm'), Surroundings(env={}));"
        "print(sorted({'openai', 'anthropic', 'boto3', 'httpx2', 'numpy'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
