"""docs/providers.md says what the code does."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from canaryd.providers import PROVIDERS
from canaryd.providers.documentation import page
from canaryd.providers.facts import FACTS

PAGE = Path(__file__).parents[2] / "docs" / "providers.md"


def test_the_page_is_the_generated_one():
    assert PAGE.read_text() == page(), "run: python -m canaryd.providers.documentation > docs/providers.md"


def test_every_provider_has_its_section():
    assert FACTS.keys() == PROVIDERS.keys()


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_the_parameters_and_options_are_those_that_the_provider_takes(name):
    module = import_module(PROVIDERS[name])
    assert FACTS[name].params.keys() == module.PARAMS
    assert FACTS[name].options.keys() == module.OPTIONS


def test_every_failure_that_the_contract_provokes_is_in_the_page(wire, kinds_of_cases):
    described = wire.described
    provoked = {kinds_of_cases[case] for case in described["CASES"]} - {None}
    assert provoked <= FACTS[described["PROVIDER"]].failures.keys()
