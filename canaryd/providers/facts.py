"""What each provider sends, records and cannot report, and how it recognises failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from canaryd.params import PARAMS
from canaryd.providers.simulated_model import FAULTS

_EXTRA_BODY = "a table of further request fields, sent as they stand"
_PROXY = "the proxy that every request goes through, as `http://HOST:PORT`; without it none is used"
_HTTP_FAILURES = {
    "rate_limited": "status 429 (a Retry-After that can be read is honoured)",
    "overloaded": "status 503 or 529",
    "server_error": "status 409, 425 or another 5xx; a reply with status 200 that is no JSON",
    "timeout": "no complete reply within timeout_s; status 408 or 504",
    "connection": "no connection, or one that breaks before the whole reply is there",
    "auth": "status 401, 403 or 407",
    "not_found": "status 404, 405 or 410; a redirect, which is not followed",
    "bad_request": "any other status 4xx",
    "quota": "status 402",
    "replayed": "a header that says the reply comes from a cache: a hit (or a stale answer) in `X-Cache`, "
    "`CF-Cache-Status` and their like, `hit` in `Cache-Status`, `X-Cache-Hits` or `Age` above 0",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """One provider: `params` maps to wire names, `options` to meanings, `failures` to how each is recognised."""

    summary: str
    params: Mapping[str, str]
    options: Mapping[str, str]
    recorded: str
    not_reported: str
    failures: Mapping[str, str]
    notes: str = ""


ANTHROPIC = Facts(
    summary="Anthropic's Messages API through the official SDK, always streamed. Needs a credential and `max_tokens`.",
    params={
        "max_tokens": "`max_tokens`",
        "temperature": "`temperature`",
        "top_p": "`top_p`",
        "top_k": "`top_k`",
        "effort": "`output_config.effort`",
    },
    options={
        "api_version": "the header `anthropic-version`; without it the SDK's own, which is recorded too",
        "betas": "a list of names, sent as the header `anthropic-beta`",
        "thinking": "the table `thinking`, sent as it stands",
        "extra_body": _EXTRA_BODY,
        "proxy": _PROXY,
    },
    recorded="text of text blocks, stop reason, model that answered, message id, input tokens (with those of the "
    "prompt cache), output tokens, of which thinking",
    not_reported="thinking text is received and dropped: it is never graded nor stored",
    failures={
        **_HTTP_FAILURES,
        "quota": "status 402; status 400 whose message says that the credit balance is too low",
        "overloaded": "status 503 or 529; an error event inside a stream with status 200",
        "server_error": _HTTP_FAILURES["server_error"] + "; a stream that ends before its `message_stop`, or "
        "without a stop reason",
        "truncated": "stop reason `max_tokens` or `model_context_window_exceeded`",
        "refusal": "stop reason `refusal`",
        "content_filtered": "status 400 whose message names the content filtering policy",
        "empty": "stop reason `end_turn` or `stop_sequence` and no text",
        "malformed": "any other stop reason (`tool_use`, `pause_turn`)",
    },
    notes="""
    The stream is read to its end before any of it is looked at: a partial text cannot become a reply, and tokens
    that a broken stream reported count against the budget.

    The 2.x SDK sends the API version `2026-10-21`, which is reported to reject sampling parameters; `api_version =
    "2023-06-01"` still takes them.
    """,
)

BEDROCK = Facts(
    summary="Amazon Bedrock's Converse through boto3; `model` is a model id, an inference profile or an ARN.",
    params={
        "max_tokens": "`inferenceConfig.maxTokens`",
        "temperature": "`inferenceConfig.temperature`",
        "top_p": "`inferenceConfig.topP`",
    },
    options={
        "region": "the AWS region; required",
        "extra_body": "a table for the model itself, sent as `additionalModelRequestFields`",
        "proxy": _PROXY,
    },
    recorded="text of text blocks, stop reason, request id, input tokens (with those of the prompt cache), and "
    "output tokens",
    not_reported="the model that answered (no Converse reply names it), and reasoning tokens",
    failures={
        **_HTTP_FAILURES,
        "overloaded": "status 503; `ModelNotReadyException`",
        "server_error": "status 5xx; `ModelErrorException`; a reply with status 200 that is no JSON or has no message "
        "or no stop reason",
        "auth": "status 401 or 403; `ExpiredTokenException`, `InvalidSignatureException`, "
        "`UnrecognizedClientException`; AWS's own chain cannot fetch its keys any more",
        "quota": "`ServiceQuotaExceededException`",
        "bad_request": "any other status 4xx; a request that boto3 refuses to send",
        "truncated": "stop reason `max_tokens` or `model_context_window_exceeded`",
        "refusal": "stop reason `refusal`",
        "content_filtered": "stop reason `content_filtered` or `guardrail_intervened`",
        "empty": "stop reason `end_turn` or `stop_sequence` and no text",
        "malformed": "any other stop reason (`tool_use`, `malformed_model_output`)",
    },
    notes="""
    Without `base_url` the region chooses the host, which is a component of the harness.

    The credential reads `ACCESS_KEY_ID:SECRET_ACCESS_KEY`, with `:SESSION_TOKEN` behind it for temporary keys.
    Without one AWS's own chain finds the keys (a role, a profile), and an arm for which it finds none is refused; set
    `AWS_EC2_METADATA_DISABLED=true` where no role is wanted. What the shared files say of the endpoint is not obeyed.
    The requests by which the chain fetches keys are its own, and take a proxy from the environment.

    boto3 knows no asyncio: a call that its deadline ended may keep a thread and a connection until the server lets
    go of them.
    """,
)

CLAUDE_CLI = Facts(
    summary="`claude -p`, one process for each ask: own system prompt, no tools, no MCP servers, no settings, one "
    "turn, an empty directory, a home of its own, a scrubbed environment, updater and retries off. Needs a credential.",
    params={"max_tokens": "`CLAUDE_CODE_MAX_OUTPUT_TOKENS`", "effort": "`--effort`"},
    options={
        "version": "the version that `claude --version` must print; required, another one is refused",
        "executable": "path or name of the program; default `claude` on PATH",
        "auth": "`api_key` (default) or `oauth_token`: what the credential is",
        "thinking_tokens": "`MAX_THINKING_TOKENS`; 0 turns thinking off",
        "bare": "true adds `--bare` (API key only)",
        "proxy": _PROXY + " (given to the program as `HTTP_PROXY` and `HTTPS_PROXY`)",
    },
    recorded="result text, stop reason, model that answered, message id, input and output tokens",
    not_reported="reasoning tokens; what the program itself adds to the prompt",
    failures={
        "rate_limited": "`api_error_status` 429, or a sentence about a rate or usage limit, whatever the exit status",
        "overloaded": "`api_error_status` 503 or 529, or such a sentence",
        "server_error": "another 5xx; a failed run without a known sentence",
        "timeout": "no end within timeout_s: the program and its children are killed",
        "connection": "a sentence about the connection, or a code of one (`ENOTFOUND`, `ECONNRESET`)",
        "auth": "`api_error_status` 401 or 403, or a sentence about login or key",
        "not_found": "`api_error_status` 404; the program cannot be started",
        "bad_request": "another 4xx; an option that this version does not know; no system prompt",
        "quota": "a sentence about the credit balance, also with status 400",
        "harness_retried": "it asked more than once: an `api_retry` event, a second message, a second turn",
        "truncated": "stop reason `max_tokens` or `model_context_window_exceeded`, or the sentence about the output "
        "token maximum",
        "refusal": "stop reason `refusal`",
        "content_filtered": "a sentence about the content filtering policy, also with status 400",
        "empty": "a successful result without text, also where the program itself asked once more",
        "malformed": "the turn limit was reached without an answer; any other stop reason (`tool_use`)",
    },
    notes="""
    The reason is taken from the events on stdout; stderr counts only where stdout is empty. `is_error` decides, not
    the exit status and not `"subtype": "success"`.

    The input is not byte-identical across days: version 2.1.197 adds today's date to every prompt, 2.1.332 also a
    block about its surroundings (directory, operating system). `bare = true` removes both in 2.1.332. Expect input
    tokens to move by a few where a date changes its length.

    The empty directory has a stable path (`canaryd-claude-UID` in the temporary directory), as the program tells it
    to the model. It is part of the harness, and so are the kind of the key and the path of `base_url`: keep `TMPDIR`
    and the user as they are.
    """,
)

HTTP = Facts(
    summary="Any application that answers a JSON POST with a JSON reply; `base_url` is its address.",
    params={},
    options={
        "url": "path under `base_url`, beginning with /",
        "request": "the body, with `{prompt}`, `{system}` and `{model}` filled in wherever they stand; required",
        "headers": "a table of further headers; none that carries a key",
        "auth_header": "the header for the credential; without it `Authorization: Bearer`",
        "output_path": "where the answer stands, as keys and indices: `choices.0.text`; required",
        "usage": "a table of paths for input_tokens, output_tokens, reasoning_tokens",
        "stop_path": "where the stop reason stands; without it every text is a whole answer",
        "stop_reasons": "a table from the application's reasons to stop, length, refusal, content_filter",
        "model_path": "where the name of the model that answered stands",
        "id_path": "where the id of the reply stands",
        "config_path": "where the application reports its configuration",
        "proxy": _PROXY,
    },
    recorded="what stands at the declared paths",
    not_reported="whatever has no declared path",
    failures={
        **_HTTP_FAILURES,
        "server_error": _HTTP_FAILURES["server_error"] + "; one in which nothing stands at `output_path` nor at "
        "`stop_path` (a page of a proxy), or nothing at a `stop_path` that is declared; an error under `error`, also "
        "beside a text, unless a declared path leads into it",
        "config_mismatch": "with `config_path`: no configuration; a field outside of the closed table; a value that "
        "its field cannot have (an infinite number, a whole one beyond 2^53, an empty name) or that looks like a "
        "key; no provider or model; one that differs from the run's first",
        "truncated": "a stop reason declared as length",
        "refusal": "a stop reason declared as refusal",
        "content_filtered": "a stop reason declared as content_filter",
        "empty": "an empty text at `output_path`",
        "malformed": "something else than a text at `output_path`, or a stop reason that is not declared",
    },
    notes="""
    Reported fields: null means not sent, `base_url` is reduced to host and port, `response_format` to its type;
    nothing else is repaired.
    """,
)

OPENAI = Facts(
    summary="Any OpenAI-compatible endpoint through the official SDK: Chat Completions or Responses. Needs a "
    'credential, or `auth = "none"`.',
    params={
        "max_tokens": "`max_tokens`, or what `cap_parameter` says; Responses: `max_output_tokens`",
        "temperature": "`temperature`",
        "top_p": "`top_p`",
        "top_k": "`top_k` (some servers; not in Responses)",
        "seed": "`seed` (not in Responses)",
        "effort": "`reasoning_effort`; Responses: `reasoning.effort`",
        "response_format": "`response_format`; Responses: `text.format`",
        "json_mode": 'true is short for `response_format = {type = "json_object"}`; false sends nothing',
    },
    options={
        "api": "`chat` (default) or `responses`",
        "auth": "`key` (default), or `none` for a server that asks for no key: then none is sent",
        "cap_parameter": "`max_tokens` (default) or `max_completion_tokens`, which OpenAI's reasoning models ask for",
        "organization": "the header `OpenAI-Organization`",
        "project": "the header `OpenAI-Project`",
        "stream": "true asks for an event stream, which is read to its end; for long outputs behind a proxy",
        "extra_body": _EXTRA_BODY,
        "proxy": _PROXY,
    },
    recorded="text, finish reason, model that answered, reply id, input and output tokens, of which reasoning",
    not_reported="a token count where `usage` is null: it is absent, never 0",
    failures={
        **_HTTP_FAILURES,
        "quota": "status 402; the code `insufficient_quota`, also with status 429",
        "overloaded": "status 503 or 529; such a code in an error inside status 200",
        "server_error": _HTTP_FAILURES["server_error"] + "; one without `choices` or `output`, which is none of the "
        "API's (a page of a proxy); one without a message, or without a finish reason; a stream that stops before its "
        "end; Responses: a status in which the model has not ended (`queued`, `in_progress`, `cancelled`), or none",
        "truncated": "finish reason `length`, with or without text; Responses: incomplete by `max_output_tokens`",
        "refusal": "the message's `refusal` is set",
        "content_filtered": "finish reason `content_filter`; the code `content_filter`, also with status 400; "
        "Responses: incomplete by `content_filter`",
        "empty": "finish reason `stop` and no text; Responses: completed without a message (reasoning only)",
        "malformed": "an unknown finish reason (a tool call); Responses: a call instead of a message",
    },
    notes="""
    Responses stores replies at OpenAI unless `extra_body = {store = false}` is set.
    """,
)

SIMULATED = Facts(
    summary="A seeded model that is not there, for demos, tests and dry runs of a registration.",
    params=dict.fromkeys(sorted(PARAMS), "part of the request's record; no effect"),
    options={
        "seed": "of every draw; default 1",
        "abilities": "a table from item ids to probabilities of the right answer; the others are drawn",
        "eras": "a list of `{from, drop or logit_shift, token_factor, resolved_model}`",
        "faults": "a table from failure kinds (and `no_usage`) to rates",
    },
    recorded="text, stop reason, model name, reply id, tokens",
    not_reported="reasoning tokens",
    failures=dict.fromkeys(sorted(FAULTS - {"no_usage"}), "drawn at its rate in `faults`"),
)

FACTS: Mapping[str, Facts] = MappingProxyType(
    {
        "anthropic": ANTHROPIC,
        "bedrock": BEDROCK,
        "claude_cli": CLAUDE_CLI,
        "http": HTTP,
        "openai": OPENAI,
        "simulated": SIMULATED,
    }
)
