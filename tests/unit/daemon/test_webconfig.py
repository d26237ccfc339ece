"""The web configuration: a subset of the exporter-toolkit's, and everything else in it is refused."""

from pathlib import Path

import pytest

from canaryd.daemon.webconfig import load_web_config, parse_web_config
from canaryd.errors import ConfigError

PAIR = "tls_server_config:\n  cert_file: a\n  key_file: b\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# web\nhttp_server_config:\n  http2: true\n", "web.yml:2: http_server_config is unknown"),
        ("tls_server_config:\n  cert_file: a\n", "web.yml:1: tls_server_config.key_file is missing"),
        (f"{PAIR}  cipher_suites: []\n", "web.yml:4: tls_server_config.cipher_suites is unknown"),
        (
            f"{PAIR}  min_version: TLS10\n",
            "web.yml:4: tls_server_config.min_version is 'TLS10', but must be one of TLS12",
        ),
        (f"{PAIR}  min_version: [TLS12]\n", "min_version is ['TLS12'], but must be one of TLS12"),
        (f"{PAIR}  client_auth_type: RequireAndVerifyClientCert\n", "tls_server_config.client_ca_file is missing"),
        ("basic_auth_users:\n  ali: plain\n", "web.yml:2: basic_auth_users.ali is no bcrypt hash"),
        (f"basic_auth_users:\n  ali: $2y$99${'a' * 53}\n", "basic_auth_users.ali is no bcrypt hash"),
        ("basic_auth_users: ali\n", "web.yml:1: basic_auth_users is str, but must be a mapping"),
        ("- a\n", "web.yml is list, but must be a mapping"),
        ("a: [\n", "web.yml:2: is not YAML"),
        ("a: &a\n  b: *a\n", "web.yml:1: a is unknown"),
        ("a: 2027-02-99\n", "web.yml: is not YAML"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"^web\.yml") as refused:
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
