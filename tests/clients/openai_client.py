"""OpenAI's Python client."""

import asyncio
import json
import time

import openai

from check import (
    ANY_KEY, BRIEFING, CALLER, KEY, MODEL, OPEN, PROMPT, STRICT, check, leaves, main, raises,
)

client = openai.OpenAI(base_url=f"{OPEN}/v1", api_key=ANY_KEY)
strict = openai.OpenAI(base_url=f"{STRICT}/v1", api_key=KEY, max_retries=0)

WEATHER = {
    "name": "weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
TOOLS = [{"type": "function", "function": WEATHER}]
ARGUMENTS = {"city": "Paris"}


def asks(text):
    return [{"role": "user", "content": f"{PROMPT} {text}"}]


@check
def models_are_listed():
    assert [model.id for model in client.models.list()] == ["demo-large", "demo-small"]


@check
def a_plain_answer_has_text_and_usage():
    answer = client.chat.completions.create(model=MODEL, user=CALLER, messages=asks("plain"))
    assert answer.choices[0].message.content and answer.choices[0].finish_reason == "stop"
    used = answer.usage
    assert used.prompt_tokens > 0 and used.total_tokens == used.prompt_tokens + used.completion_tokens


@check
def a_stream_ends_with_its_usage():
    stream = client.chat.completions.create(
        model=MODEL, messages=asks("streaming"), stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    words = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert len([word for word in words if word]) > 5
    assert [chunk for chunk in chunks if chunk.choices][-1].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.completion_tokens > 0


@check
def a_tool_is_called_and_its_result_read():
    messages = asks("tools")
    first = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
    assert first.choices[0].finish_reason == "tool_calls"
    [call] = first.choices[0].message.tool_calls
    assert call.function.name == "weather" and json.loads(call.function.arguments) == ARGUMENTS
    messages += [
        first.choices[0].message,
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
    ]
    second = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
    assert second.choices[0].message.content


@check
def a_tool_is_called_in_a_stream():
    with client.chat.completions.stream(model=MODEL, messages=asks("tools"), tools=TOOLS) as stream:
        final = stream.get_final_completion()
    [call] = final.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == ARGUMENTS


@check
def a_conversation_stays_and_reads_its_cache():
    messages = [{"role": "system", "content": BRIEFING}, *asks("first")]
    seen = []
    for _ in range(3):
        raw = client.chat.completions.with_raw_response.create(
            model=MODEL, user=f"{CALLER}-who-stays", messages=messages
        )
        answer = raw.parse()
        details = answer.usage.prompt_tokens_details
        seen.append((raw.headers["x-demo-account"], details.cached_tokens))
        messages += [answer.choices[0].message, *asks("more")]
    assert len({account for account, _ in seen}) == 1, seen
    assert seen[0][1] == 0 < seen[1][1] < seen[2][1], seen


@check
def a_response_has_text_and_usage():
    answer = client.responses.create(
        model=MODEL, instructions=BRIEFING, input=PROMPT, prompt_cache_key=CALLER
    )
    assert answer.status == "completed" and answer.output_text
    again = client.responses.create(
        model=MODEL, instructions=BRIEFING, input=PROMPT, prompt_cache_key=CALLER
    )
    assert again.usage.input_tokens_details.cached_tokens == answer.usage.input_tokens


@check
def a_response_streams():
    with client.responses.stream(model=MODEL, input=PROMPT) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert len(deltas) > 5 and "".join(deltas) == final.output_text
    assert final.usage.output_tokens > 0


@check
def a_response_calls_a_tool_and_reads_its_result():
    tools = [{"type": "function", **WEATHER}]
    conversation = asks("tools")
    first = client.responses.create(model=MODEL, input=conversation, tools=tools)
    [call] = first.output
    assert call.type == "function_call" and json.loads(call.arguments) == ARGUMENTS
    with client.responses.stream(model=MODEL, input=conversation, tools=tools) as stream:
        [streamed] = stream.get_final_response().output
    assert json.loads(streamed.arguments) == ARGUMENTS
    conversation += [
        call.model_dump(exclude_none=True),
        {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"},
    ]
    assert client.responses.create(model=MODEL, input=conversation, tools=tools).output_text


@check
def an_unknown_model_is_not_found():
    with raises(openai.NotFoundError, 404) as caught:
        client.chat.completions.create(model="no-such-model", messages=asks("unknown"))
    assert caught[0].code == "model_not_found" and caught[0].request_id


@check
def an_upstreams_error_keeps_its_shape():
    with raises(openai.BadRequestError, 400) as caught:
        client.chat.completions.create(model=MODEL, messages=[])
    error = caught[0]
    assert (error.type, error.code) == ("invalid_request_error", "invalid_request"), error
    assert "messages" in error.message


@check
def an_unknown_path_is_not_found():
    with raises(openai.NotFoundError, 404) as caught:
        client.embeddings.create(model=MODEL, input="a")
    assert caught[0].code == "unknown_path"


@check
def a_missing_or_wrong_key_is_refused():
    for key in ["sentinel-of-a-wrong-key", ""]:
        wrong = openai.OpenAI(base_url=f"{STRICT}/v1", api_key=key or "x")
        headers = {} if key else {"Authorization": openai.omit}
        with raises(openai.AuthenticationError, 401) as caught:
            wrong.chat.completions.create(model=MODEL, messages=asks(""), extra_headers=headers)
        assert caught[0].code == "invalid_api_key"


@check
def too_large_a_body_is_refused():
    for megabytes in [1, 20]:
        with raises(openai.APIStatusError, 413) as caught:
            strict.chat.completions.create(model=MODEL, messages=asks("x" * (megabytes << 20)))
        assert caught[0].code == "request_too_large"


@check
def a_throttle_tells_when_to_come_back():
    with raises(openai.RateLimitError, 429) as caught:
        strict.chat.completions.create(model=MODEL, messages=asks("throttled"))
    assert caught[0].response.headers["retry-after"] == "1"
    assert caught[0].code == "rate_limit_exceeded"


@check
def a_client_that_comes_back_when_told_to_is_served():
    patient = strict.with_options(max_retries=2)
    began = time.monotonic()
    raw = patient.chat.completions.with_raw_response.create(
        model="demo-small", messages=asks("throttled at first")
    )
    took = time.monotonic() - began
    # By itself it would have tried again after half a second, in vain.
    assert raw.retries_taken == 1 and 1 <= took < 5, (raw.retries_taken, took)


@check
def a_stream_that_is_left_is_dropped():
    stream = client.chat.completions.create(model=MODEL, messages=asks("leaving"), stream=True)
    next(iter(stream))
    stream.close()
    leaves(stream.response.headers["x-request-id"])


@check
def a_task_that_is_cancelled_is_dropped():
    async def leave():
        asynchronous = openai.AsyncOpenAI(base_url=f"{OPEN}/v1", api_key=ANY_KEY)
        heard = asyncio.Event()
        seen = {}

        async def listen():
            stream = await asynchronous.chat.completions.create(
                model=MODEL, messages=asks("cancelled"), stream=True
            )
            seen["id"] = stream.response.headers["x-request-id"]
            async with stream:
                async for _ in stream:
                    heard.set()

        task = asyncio.create_task(listen())
        await heard.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asynchronous.close()
        return seen["id"]

    leaves(asyncio.run(leave()))


main("openai (Python)")
