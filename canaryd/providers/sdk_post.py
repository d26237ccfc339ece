"""One POST through an SDK of OpenAI's and Anthropic's make, with its exceptions translated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import httpx2

from canaryd.providers.base import ProviderError, timed_out
from canaryd.providers.cached import refuse_cached
from canaryd.providers.wire import Redactor, failure_of_status


async def answered(
    post: Awaitable[httpx2.Response], *, sdk: Any, timeout_s: float, redactor: Redactor
) -> httpx2.Response:
    """Return the whole response with status 200 of one request that `sdk` (openai or anthropic) sends.

    Raises:
        ProviderError: there is none within the time, or it came from a cache.
    """
    try:
        async with asyncio.timeout(timeout_s):
            response = await post
    except TimeoutError:
        failure = timed_out(timeout_s)
    except sdk.APIStatusError as error:
        failure = failure_of_status(
            error.status_code, headers=error.response.headers, body=error.response.content, redactor=redactor
        )
    except sdk.APIConnectionError as error:
        failure = ProviderError("connection", redactor(f"{type(error.__cause__).__name__}: {error.__cause__}"))
    else:
        refuse_cached(response.headers)
        return response
    # Raised outside of the handlers: the SDK's exception holds the request with its key, and must not hang on ours.
    raise failure
