"""Every error that a user may meet, as one tree, with the exit code of each branch.

CanarydError
├── UsageError            64  the command line asks for something that does not exist
├── VerifyFailed          65  a recomputation disagrees with what is stored
├── StoreUnavailable      66  the store is missing, or its schema is not current
├── MeasurementRefused    69  something that was pinned no longer matches, so nothing is measured
├── NotAccepted           69  a receiver of alerts took no message
├── NotListening          69  the daemon cannot listen at its address now
├── Locked                75  another process holds the series
├── CredentialsError      77  a key is missing
└── ConfigError           78  config, panel or registration cannot be read as written
"""

from __future__ import annotations

EXIT_CRASH = 70
EXIT_INTERRUPTED = 130
#: Whoever read the output of a pipe has gone: never a verdict, whatever the command found.
EXIT_PIPE = 141


class CanarydError(Exception):
    """An expected failure: its text is one sentence for the user, saying what, where, why and what to do next."""

    exit_code = EXIT_CRASH


class UsageError(CanarydError):
    """The command line asks for something that does not exist or makes no sense."""

    exit_code = 64


class VerifyFailed(CanarydError):
    """A recomputation from raw rows disagrees with what is stored."""

    exit_code = 65


class StoreUnavailable(CanarydError):
    """The store is missing or its schema is not the current one."""

    exit_code = 66


class MeasurementRefused(CanarydError):
    """Something that was pinned no longer matches; `reason` is one of the blocked reasons of the contract."""

    exit_code = 69

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class NotAccepted(CanarydError):
    """A receiver of alerts refused a message, or did not answer in time."""

    exit_code = 69


class NotListening(CanarydError):
    """The address to serve at is taken or not there, which may pass."""

    exit_code = 69


class Locked(CanarydError):
    """Another living process holds the series."""

    exit_code = 75


class CredentialsError(CanarydError):
    """A key that an arm needs cannot be found."""

    exit_code = 77


class ConfigError(CanarydError):
    """Config, panel or registration cannot be read as written."""

    exit_code = 78
