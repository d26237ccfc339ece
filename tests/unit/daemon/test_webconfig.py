"""The web configuration: a subset of the exporter-toolkit's, and everything else in it is refused."""

from pathlib import Path

import pytest

from canaryd.daemon.webconfig import load_web_config, parse_web_config
from canaryd.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http_server_config:\n  http2: true\n", "web.yml: http_server_config is unknown"),
        ("tls_server_config:\n  cert_file: a\n", "web.yml: tls_server_config.key_file is missing"),
        ("tls_server_config:\n  cert_file: a\n  key_file: b\n  cipher_suites: []\n", "cipher_suites is unknown"),
        ("tls_server_config:\n  cert_file: a\n  key_file: b\n  min_version: TLS10\n", "must be one of TLS12, TLS13"),
        (
            "tls_server_config:\n  cert_file: a\n  key_file: b\n  client_auth_type: RequireAndVerifyClientCert\n",
            "client_ca_file is missing",
        ),
        ("basic_auth_users:\n  ali: plain\n", "basic_auth_users.ali is no bcrypt hash"),
        ("- a\n", "must be a mapping"),
        ("a: [\n", "web.yml:2: is not YAML"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"web\.yml") as refused:
        parse_web_config(text, path=Path("web.yml"))
    assert said in str(refused.value)


def test_an_empty_file_lets_everyone_in() -> None:
    config = parse_web_config("", path=Path("web.yml"))
    assert (config.tls, config.users) == (None, {})


def test_a_certificate_that_is_none_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text("tls_server_config:\n  cert_file: c.pem\n  key_file: k.pem\n")
    tls = load_web_config(tmp_path / "web.yml").tls
    assert tls is not None
    with pytest.raises(ConfigError, match=r"c\.pem: certificate and key cannot be loaded"):
        tls.context()
