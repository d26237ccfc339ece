"""A reply that a cache has given is no measurement, whatever the cache calls it."""

from __future__ import annotations

import pytest

from canaryd.providers.base import ProviderError

HITS = [
    ("X-Cache", "HIT"),
    ("X-Cache", "MISS, HIT"),
    ("X-Cache", "Hit from cloudfront"),
    ("X-Cache", "RefreshHit from cloudfront"),
    ("X-Cache", "OriginShieldHit from cloudfront"),
    ("X-Cache", "TCP_HIT from a23-1-2-3.deploy.test (AkamaiGHost/11)"),
    ("X-Cache", "TCP_MEM_HIT"),
    ("X-Cache", "cached"),
    ("X-Cache-Remote", "TCP_HIT from a23-1-2-3.deploy.test"),
    ("X-Cache-Status", "HIT"),
    ("X-Cache-Status", "STALE"),
    ("X-Proxy-Cache", "HIT"),
    ("X-Vercel-Cache", "STALE"),
    ("X-Cache-Hits", "1"),
    ("X-Cache-Hits", "0, 20"),
    ("CF-Cache-Status", "HIT"),
    ("CF-Cache-Status", "STALE"),
    ("CF-Cache-Status", "REVALIDATED"),
    ("CF-Cache-Status", "UPDATING"),
    ("CF-AIG-Cache-Status", "HIT"),
    ("X-LiteLLM-Cache-Hit", "True"),
    ("X-Portkey-Cache-Status", "SEMANTIC HIT"),
    ("Cache-Status", "OriginCache; hit; ttl=1100"),
    ("Cache-Status", "OriginCache; hit=?1"),
    ("Cache-Status", 'Origin; fwd=uri-miss, "Edge, the; last"; hit'),
    ("Age", "7"),
    ("Age", "600"),
]
PASSED = [
    ("X-Cache", "MISS"),
    ("X-Cache", "Miss from cloudfront"),
    ("X-Cache", "MISS from hit-cache.test:3128, MISS"),
    ("X-Cache", "TCP_MISS from a23-1-2-3.deploy.test"),
    ("X-Cache", "CONFIG_NOCACHE"),
    ("X-Cache", "not cached"),
    ("X-Cache", ""),
    ("X-Cache-Status", "BYPASS"),
    ("X-Cache-Status", "EXPIRED"),
    ("X-Proxy-Cache", "MISS"),
    ("X-Cache-Hits", "0, 0"),
    ("CF-Cache-Status", "DYNAMIC"),
    ("CF-Cache-Status", "MISS"),
    ("CF-Cache-Status", "BYPASS"),
    ("X-LiteLLM-Cache-Hit", "False"),
    ("X-Portkey-Cache-Status", "SEMANTIC MISS"),
    ("Cache-Status", "Origin; fwd=stale; stored"),
    ("Cache-Status", 'HIT; fwd=miss; key="/a; hit"; detail=hit'),
    ("Cache-Status", "Origin; hit=?0"),
    ("Age", "0"),
    ("Age", "old"),
]


@pytest.mark.parametrize(("name", "value"), HITS)
def test_what_a_cache_has_given_is_replayed(wire_of, ask, outcome, name, value):
    wire = wire_of("http")
    failure = outcome(wire.provider({**wire.described["good"](), "headers": {name: value}}), ask)
    assert isinstance(failure, ProviderError)
    assert (failure.kind, failure.retryable) == ("replayed", False)
    assert name.lower() in failure.detail


@pytest.mark.parametrize(("name", "value"), PASSED)
def test_what_a_cache_has_let_through_is_a_measurement(wire_of, ask, outcome, name, value):
    wire = wire_of("http")
    reply = outcome(wire.provider({**wire.described["good"](), "headers": {name: value}}), ask)
    assert reply.text == "<answer>42</answer>"


@pytest.mark.parametrize("name", ["anthropic", "bedrock", "openai_chat"])
@pytest.mark.parametrize("header", [("Cache-Status", "Edge; hit"), ("Age", "3"), ("X-Cache", "MISS, HIT")])
def test_every_provider_that_speaks_http_looks(wire_of, ask, outcome, name, header):
    wire = wire_of(name)
    sent = wire.described["good"]()
    headers = {**sent.get("headers", {}), header[0]: header[1]}
    assert outcome(wire.provider({**sent, "headers": headers}), ask).kind == "replayed"
