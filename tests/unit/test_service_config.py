"""The tables of the configuration that say what the resident process does beside measuring."""

from __future__ import annotations

from pathlib import Path

import pytest

from canaryd.errors import ConfigError
from canaryd.service_config import Backup, ServiceConfig, Webhook, parse_service
from canaryd.tables import parse_table

FOLDER = Path("/etc/canaryd")


def service(text: str) -> ServiceConfig:
    return parse_service(
        parse_table(text, source="config.toml"), folder=FOLDER, store_url="sqlite:////etc/canaryd/canaryd.db"
    )


def test_nothing_is_done_unless_it_is_said() -> None:
    assert service("") == ServiceConfig("127.0.0.1:10877", "info", None, None, None)


def test_everything_said() -> None:
    found = service(
        '[daemon]\nlisten = "127.0.0.1:9"\nlog_level = "debug"\n[webhook]\ncredential = "hook"\nformat = "generic"\n'
        'runbooks = "https://wiki/x/"\n[backup]\nfolder = "copies"\n[export]\nfile = "/srv/ro.sqlite"\n'
    )
    assert (found.listen, found.log_level) == ("127.0.0.1:9", "debug")
    assert found.webhook == Webhook("hook", "generic", "https://wiki/x")
    assert found.backup == Backup(FOLDER / "copies", 7)
    assert found.export == Path("/srv/ro.sqlite")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[webhook]\nformat = "slack"', "config.toml: webhook.credential is required"),
        ('[webhook]\nurl = "https://hooks.test/hush"', "config.toml:2: webhook.url is a key, since whoever knows it"),
        ('[webhook]\ncredential = "h"\nformat = "xml"', "config.toml:3: webhook.format is 'xml', but must be slack or"),
        ('[webhook]\ncredential = "h"\nrunbooks = "wiki"', "config.toml:3: webhook.runbooks is 'wiki', but must be"),
        ("[backup]\nkeep = 3", "config.toml: backup.folder is required"),
        ('[backup]\nfolder = "x"\nkeep = 0', "config.toml:3: backup.keep is 0, but must be between 1 and 1000"),
        ("[export]", "config.toml: export.file is required"),
        ("[export]\nfile = ''", "config.toml:2: export.file is '', but must be the path of a file"),
        ('[export]\nfile = "copies/.."', "config.toml:2: export.file is 'copies/..', but must be the path of a file"),
        ('[export]\nfile = "x/../canaryd.db"', "config.toml:2: export.file is the store itself"),
        ('[backup]\nfolder = ""', "config.toml:2: backup.folder is '', but must not be empty"),
        ('[webhook]\ncredential = ""', "config.toml:2: webhook.credential is '', but must be 1 to 63 small letters"),
        ('[daemon]\nlisten = ""', "config.toml:2: daemon.listen is '', but must be IP:PORT"),
        ('[daemon]\nlisten = "x"', "config.toml:2: daemon.listen is 'x', but must be IP:PORT"),
        ('[daemon]\nlisten = "127.0.0.1:99999"', "config.toml:2: daemon.listen is '127.0.0.1:99999', but must be"),
        ("[daemon]\nport = 3", "config.toml:2: daemon.port is unknown; allowed here: listen"),
        ('[daemon]\nlog_level = "loud"', "config.toml:2: daemon.log_level is 'loud', but must be one of debug, info"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        service(text)
    assert str(caught.value).startswith(message)
    assert "hush" not in str(caught.value)
