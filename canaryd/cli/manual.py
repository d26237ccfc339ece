"""What the help of every command ends with: examples, exit codes, files and environment, each said once, here."""

from __future__ import annotations

from collections.abc import Iterable

EXIT_CODES = {
    0: "done; where a command judges: no change, passed, or a verdict",
    1: "changed, or failed; of `check`, `compare` and `validate report` only",
    2: "could not be judged; of those and `duel` only",
    64: "the command line asks for something that does not exist or makes no sense",
    65: "a recomputation disagrees with what is stored",
    66: "the store is missing, damaged, or its schema is not current",
    69: "not measured: something is not as it was pinned, or a provider failed; an alert or an address was not taken",
    70: "a crash, or an output that cannot be written; never a verdict",
    75: "another process holds the series",
    77: "a key is missing",
    78: "the configuration, the panel or the registration cannot be read as written",
    130: "interrupted; what was stored stays",
    141: "whoever read the output has gone",
}
FILES = {
    "--config FILE": "the configuration; the first that there is wins, nothing is merged",
    "$CANARYD_CONFIG": "the same",
    "$CONFIGURATION_DIRECTORY/config.toml": "the folder that systemd gives the service",
    "$XDG_CONFIG_HOME/canaryd/config.toml": "without $XDG_CONFIG_HOME ~/.config",
    "/etc/canaryd/config.toml": "the last place",
    "$CREDENTIALS_DIRECTORY/NAME": "the key NAME; then --credentials-dir, [credentials], and $NAME if allowed",
}
ENVIRONMENT = {
    "CANARYD_CONFIG": "the configuration file",
    "CANARYD_CREDENTIALS_DIR": "what --credentials-dir says",
    "CANARYD_QUIET, CANARYD_VERBOSE, CANARYD_NO_INPUT": "1: what the option says",
    "CANARYD_NO_COLOR, NO_COLOR, TERM=dumb": "no colours; a stream that is no terminal never gets any",
    "CANARYD_COMMAND_OPTION": "any option of a command, as in CANARYD_STATUS_SERIES",
}
EXAMPLES = {
    "init": ("canaryd init ./mine", "canaryd init ./rehearsal --simulated"),
    "demo": ("canaryd demo", "canaryd demo --quick --no-drop --dir ./null"),
    "panel lint": ("canaryd panel lint panel/mine.jsonl",),
    "panel freeze": ("canaryd panel freeze panel/mine.jsonl",),
    "panel verify": ("canaryd panel verify panel/mine.jsonl",),
    "panel generate": ("canaryd panel generate panel/mine.jsonl --seed 'a private text' --size 200",),
    "panel show": ("canaryd panel show panel/mine.jsonl", "canaryd panel show panel/mine.jsonl arith-001"),
    "panel diff": ("canaryd panel diff panel/old.jsonl panel/new.jsonl",),
    "calibrate screen": ("canaryd calibrate screen", "canaryd calibrate screen pool.jsonl --arm tracked"),
    "calibrate confirm": ("canaryd calibrate confirm pool.jsonl",),
    "calibrate design": ("canaryd calibrate design pool.jsonl --out panel/mine.jsonl --plot design.svg",),
    "calibrate predict": ("canaryd calibrate predict counts.csv --baseline 20 --window 10",),
    "register": ("canaryd register", "canaryd register --series main --start 2027-04-01"),
    "simulate": ("canaryd simulate", "canaryd simulate --rates baseline --json"),
    "validate run": ("canaryd validate run",),
    "validate report": ("canaryd validate report --json",),
    "run": ("canaryd run --dry-run", "canaryd run --series main", "canaryd -v run --slot today"),
    "rehearse": ("canaryd rehearse --days 30",),
    "doctor": ("canaryd doctor", "canaryd doctor --series main"),
    "deviation add": ("canaryd deviation add --reason 'the provider announced maintenance'",),
    "deviation accept": ("canaryd deviation accept --equivalent --reason 'a new version of the SDK'",),
    "rebaseline": ("canaryd rebaseline --reason 'a new model version is wanted from now on'",),
    "ack": ("canaryd ack --until 7d --reason 'the vendor is told, ticket 4711'",),
    "quarantine": ("canaryd quarantine --slot 2027-04-01 --reason 'our proxy changed the prompts'",),
    "sentinel baseline": ("canaryd sentinel baseline --samples 80",),
    "status": ("canaryd status", "canaryd status --watch 10", "canaryd status --json"),
    "check": ("canaryd check", "canaryd check --series main --json"),
    "report": ("canaryd report --out ./report",),
    "compare": ("canaryd compare before.csv after.csv", "canaryd compare a.jsonl b.jsonl --column item_id=question"),
    "alarms": ("canaryd alarms", "canaryd alarms --json"),
    "alert test": ("canaryd alert test --severity warning", "canaryd alert test --webhook"),
    "daemon": (
        "canaryd daemon --config /etc/canaryd/config.toml",
        "canaryd daemon --web.listen-address 127.0.0.1:10877 --log-level debug",
    ),
    "metrics": ("canaryd metrics", "canaryd metrics --textfile /var/lib/node_exporter/canaryd.prom"),
    "duel lint": ("canaryd duel lint questions.jsonl",),
    "duel register": ("canaryd duel register duel.toml",),
    "duel run": ("canaryd duel run duel.toml",),
    "duel report": ("canaryd duel report duel.toml --html duel.html",),
    "duel demo": ("canaryd duel demo",),
    "regrade": ("canaryd regrade", "canaryd regrade --since 2027-04-01 --json"),
    "verify": ("canaryd verify", "canaryd verify main.jsonl"),
    "export": ("canaryd export main.jsonl --series main", "canaryd export - --series main --format csv"),
    "import": (
        "canaryd import main.jsonl",
        "canaryd import rows.csv --series old --tracked large --control small --prereg prereg.toml",
    ),
    "config show": ("canaryd config show",),
    "config check": ("canaryd config check",),
    "completion": ("canaryd completion zsh",),
    "db upgrade": ("canaryd db upgrade --dry-run", "canaryd db upgrade"),
    "db check": ("canaryd db check",),
    "db backup": ("canaryd db backup /backup/canaryd.db", "canaryd db backup"),
    "db roles": ("canaryd db roles",),
    "db expire-texts": (
        "canaryd db expire-texts --before 2027-01-31",
        "canaryd db expire-texts --before 2027-01-31 --yes",
    ),
}
#: The codes that a command is called for, or that need care, beside those that any command may end with; what they say
#: of this command where that is more than `EXIT_CODES` does.
EXITS: dict[str, dict[int, str | None]] = {
    "panel lint": {0: "clean", 78: "there are complaints"},
    "panel verify": {0: "it is the frozen panel", 69: "it differs from its lock"},
    "calibrate screen": {0: "every sample is there", 69: "samples are missing; go on by the same command", 77: None},
    "calibrate confirm": {0: "every sample is there", 69: "samples are missing; go on by the same command", 77: None},
    "validate run": {0: "the session is whole", 69: "samples are missing; go on by the same command", 77: None},
    "validate report": {0: "passed", 1: "failed", 2: "not judged yet"},
    "run": {
        0: "the slot is complete",
        69: "an arm could not be measured",
        75: None,
        77: "no arm was asked, for want of a key",
        78: "no arm was asked, for its configuration",
        130: "told to end; the slot goes on where it stopped",
    },
    "rehearse": {
        0: "measured; each arm and day that was not is named",
        69: "nothing could be measured",
        75: None,
        130: None,
    },
    "doctor": {0: "nothing stands in the way", 66: None, 69: "a check failed; its line says what to do"},
    "status": {0: "it could report, whatever it reports", 66: None},
    "check": {0: "no change is detected", 1: "a change is declared", 2: "could not be judged, or is stale"},
    "compare": {0: "no change is detected", 1: "changed", 2: "could not be judged"},
    "alert test": {0: "it was taken", 69: "it was refused, or nobody answered", 77: "the webhook's URL is missing"},
    "daemon": {
        0: "told to stop; calls in flight are stored",
        66: None,
        69: "the address is taken, or not there yet; systemd tries again",
        78: "the configuration or the --web.config.file cannot be used; systemd does not try again",
        130: "told to stop twice",
    },
    "duel lint": {0: "clean", 78: "there are complaints"},
    "duel run": {0: "there is a verdict", 2: "there is none", 69: "a judge could not be asked", 77: None},
    "duel report": {0: "there is a verdict", 2: "there is none"},
    "duel demo": {0: "there is a verdict", 2: "there is none"},
    "regrade": {0: "every grade came out again", 65: "a grade differs", 69: "the sandbox failed"},
    "verify": {0: "everything came out again", 65: "a row differs, is missing or was added", 66: None},
    "config check": {0: "it can be used", 69: "it is not what was registered", 77: None, 78: None},
    "db upgrade": {0: "the schema is current", 66: None, 75: None},
    "db check": {0: "the store is whole", 66: "it is damaged, or cannot be opened"},
    "db expire-texts": {0: "they are gone", 64: "refused: the answer was no, or nobody could be asked"},
}
_EVERYWHERE = (
    "--config, --credentials-dir, --quiet, --verbose, --no-input and --no-color of `canaryd --help` may stand here too."
)


def epilog(path: str) -> str:
    """Return what the help of a command ends with, `path` being its name behind `canaryd`, empty for canaryd itself."""
    if not path:
        example = ["canaryd demo", "canaryd --config config.toml status", "canaryd status"]
        return "\n\n".join(
            [
                _verbatim("Examples:", example),
                _verbatim("Exit codes:", _pairs((str(code), text) for code, text in EXIT_CODES.items())),
                _verbatim("Files:", _pairs(FILES.items())),
                _verbatim("Environment:", _pairs(ENVIRONMENT.items())),
            ]
        )
    parts = [_verbatim("Examples:", EXAMPLES[path])] if path in EXAMPLES else []
    if path in EXITS:
        parts.append(
            _verbatim(
                "Exit codes:", _pairs((str(code), text or EXIT_CODES[code]) for code, text in EXITS[path].items())
            )
        )
    return "\n\n".join([*parts, _EVERYWHERE])


def _pairs(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return one line for each pair, its second half in a column."""
    known = list(pairs)
    width = max(len(name) for name, _ in known)
    return [f"{name:<{width}}  {text}" for name, text in known]


def _verbatim(title: str, lines: Iterable[str]) -> str:
    """Return a paragraph that click does not wrap."""
    return "\n".join(["\b", title, *(f"  {line}" for line in lines)])
