"""The page of two registries, one of which is rendered only when it changed."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.parser import text_string_to_metric_families

from canaryd.metrics.exposition import Exposition

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Page:
    """A page of one live and one settled gauge."""

    def __init__(self) -> None:
        live, settled = CollectorRegistry(), CollectorRegistry()
        self.state: object = (None, 0)
        self.live = Gauge("canaryd_live", "Moves.", registry=live)
        self.settled = Gauge("canaryd_settled", "Seldom moves.", registry=settled)
        self._exposition = Exposition(live=live, settled=settled, state=lambda: self.state)

    def text(self, accept: str = "") -> str:
        return self._exposition.render(accept)[0].decode()

    def values(self) -> dict[str, float]:
        return {family.name: family.samples[0].value for family in text_string_to_metric_families(self.text())}


def test_a_settled_value_is_shown_anew_once_the_state_says_so() -> None:
    page = Page()
    assert page.values() == {"canaryd_settled": 0.0, "canaryd_live": 0.0}
    page.live.set(1)
    page.settled.set(1)
    assert page.values() == {"canaryd_settled": 0.0, "canaryd_live": 1.0}
    page.state = (None, 1)
    assert page.values() == {"canaryd_settled": 1.0, "canaryd_live": 1.0}


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_the_format_is_the_one_that_was_asked_for_although_another_was_kept(accept: str) -> None:
    page = Page()
    page.text("" if accept else OPENMETRICS)
    ends = page.text(accept).count("# EOF")
    assert ends == bool(accept)
    assert page.text(accept).endswith("# EOF\n") == bool(accept)
