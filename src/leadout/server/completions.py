"""``POST /v1/completions``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from fastapi import APIRouter, Request, Response

from leadout.server.body_route import BodyRoute
from leadout.server.completion_form import CompletionForm
from leadout.server.completion_reply import CompletionReply
from leadout.server.constraint import constrained, constraint_of
from leadout.server.desk import Desk
from leadout.server.refusal import RefusedError
from leadout.server.reply import Job, Piece


def completion_routes(desk: Desk) -> APIRouter:
    """The route, answering through `desk`."""
    router = APIRouter(tags=["OpenAI"], route_class=BodyRoute)

    @router.post("/v1/completions", summary="Continue text.", **desk.documented)
    async def completions(request: Request, form: CompletionForm) -> Response:
        if form.stream_options is not None and not form.stream:
            raise RefusedError(400, "stream_options needs stream: true", param="stream_options")
        if form.receipt and len(form.prompts()) > 1:
            raise RefusedError(400, "receipt needs one prompt alone; ask for each by itself", param="receipt")
        served = await desk.served(request, form.model, form.keep_alive)
        wanted = constraint_of(
            format_field="response_format",
            schema_field="response_format.json_schema.schema",
            format=None if form.response_format is None else form.response_format.model_dump(by_alias=True),
            grammar=form.grammar,
        )
        params = form.to_params(max_tokens=form.max_tokens, n=form.n, stop=form.stop, logprobs=form.logprobs)
        params = await constrained(params, served, wanted, is_chat=False)
        jobs = [
            Job(
                served=served,
                prompt=prompt,
                params=params,
                client=desk.client(request),
                is_chat=False,
                receipt=form.receipt or False,
                deadline=desk.deadline(),
            )
            for prompt in form.prompts()
        ]
        options = form.stream_options
        reply = CompletionReply(
            model=form.model,
            n=params.n,
            has_logprobs=form.logprobs is not None,
            has_usage=bool(form.stream and options and options.include_usage),
            has_origins=bool(options and options.include_origins),
        )
        pieces = together([desk.pieces(request, job) for job in jobs], params.n)
        if form.stream:
            return await desk.stream(request, pieces, reply.chunks, jobs[0])
        return await desk.whole(request, reply.whole(pieces), jobs[0])

    return router


async def together(sources: Sequence[AsyncGenerator[Piece, None]], n: int) -> AsyncGenerator[Piece, None]:
    """The pieces of several prompts as they come; answer i of prompt j has index j * n + i.

    The first error ends them all.
    """
    arrived: asyncio.Queue[Piece | Exception | None] = asyncio.Queue()

    async def read(at: int) -> None:
        try:
            async with aclosing(sources[at]) as source:
                async for piece in source:
                    arrived.put_nowait(replace(piece, index=at * n + piece.index))
            arrived.put_nowait(None)
        except Exception as error:
            arrived.put_nowait(error)

    tasks = [asyncio.create_task(read(at)) for at in range(len(sources))]
    n_left = len(tasks)
    try:
        while n_left:
            match await arrived.get():
                case None:
                    n_left -= 1
                case Exception() as error:
                    raise error
                case Piece() as piece:
                    yield piece
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
