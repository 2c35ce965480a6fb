"""Anthropic's Python client."""

import time

import anthropic

from check import (
    ANY_KEY, BRIEFING, CALLER, KEY, MODEL, OPEN, PROMPT, STRICT, check, leaves, main, raises,
)

client = anthropic.Anthropic(base_url=OPEN, api_key=ANY_KEY)
strict = anthropic.Anthropic(base_url=STRICT, api_key=KEY, max_retries=0)

WEATHER = {
    "name": "weather",
    "description": "The weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
ARGUMENTS = {"city": "Paris"}


def asks(text):
    return [{"role": "user", "content": f"{PROMPT} {text}"}]


def common(text, **more):
    return {"model": MODEL, "max_tokens": 256, "messages": asks(text), **more}


@check
def models_are_listed():
    assert [model.id for model in client.models.list()] == ["demo-large", "demo-small"]


@check
def a_plain_answer_has_text_and_usage():
    answer = client.messages.create(**common("plain", metadata={"user_id": CALLER}))
    assert answer.content[0].text and answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens > 0


@check
def a_stream_adds_up_to_its_message():
    with client.messages.stream(**common("streaming")) as stream:
        words = list(stream.text_stream)
        final = stream.get_final_message()
    assert len(words) > 5 and "".join(words) == final.content[0].text
    assert final.stop_reason == "end_turn" and final.usage.output_tokens > 1


@check
def a_tool_is_called_and_its_result_read():
    messages = asks("tools")
    first = client.messages.create(**common("tools", tools=[WEATHER]))
    assert first.stop_reason == "tool_use"
    [call] = first.content
    assert (call.name, call.input) == ("weather", ARGUMENTS)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
    messages += [
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    second = client.messages.create(
        model=MODEL, max_tokens=256, messages=messages, tools=[WEATHER]
    )
    assert second.content[0].text


@check
def a_tool_is_called_in_a_stream():
    with client.messages.stream(**common("tools", tools=[WEATHER])) as stream:
        [call] = stream.get_final_message().content
    assert (call.name, call.input) == ("weather", ARGUMENTS)


@check
def a_conversation_stays_and_reads_its_cache():
    briefing = [{"type": "text", "text": BRIEFING, "cache_control": {"type": "ephemeral"}}]
    messages = asks("first")
    seen = []
    for _ in range(3):
        raw = client.messages.with_raw_response.create(
            model=MODEL, max_tokens=256, system=briefing, messages=messages,
            metadata={"user_id": f"{CALLER}-who-stays"},
        )
        answer = raw.parse()
        used = answer.usage
        seen.append((
            raw.headers["x-demo-account"],
            used.cache_creation_input_tokens, used.cache_read_input_tokens,
        ))
        messages += [{"role": "assistant", "content": answer.content}, *asks("more")]
    assert len({account for account, _, _ in seen}) == 1, seen
    written, read = [it[1] for it in seen], [it[2] for it in seen]
    assert read[0] == 0 < read[1] < read[2] and written[0] > written[1] > 0, seen


@check
def an_unknown_model_is_not_found():
    with raises(anthropic.NotFoundError, 404) as caught:
        client.messages.create(**{**common("unknown"), "model": "no-such-model"})
    assert caught[0].body["error"]["type"] == "not_found_error"


@check
def an_upstreams_error_keeps_its_shape():
    with raises(anthropic.BadRequestError, 400) as caught:
        client.messages.create(model=MODEL, max_tokens=256, messages=[])
    body = caught[0].body
    assert body["type"] == "error" and body["error"]["type"] == "invalid_request_error", body
    assert "messages" in body["error"]["message"]


@check
def an_unknown_path_is_not_found():
    with raises(anthropic.NotFoundError, 404):
        client.messages.batches.list()


@check
def a_missing_or_wrong_key_is_refused():
    wrong = anthropic.Anthropic(base_url=STRICT, api_key="sentinel-of-a-wrong-key")
    for headers in [{}, {"X-Api-Key": anthropic.omit}]:
        with raises(anthropic.AuthenticationError, 401) as caught:
            wrong.messages.create(**common(""), extra_headers=headers)
        assert caught[0].body["error"]["type"] == "authentication_error"


@check
def a_bearer_token_is_a_key_as_well():
    bearer = anthropic.Anthropic(base_url=STRICT, api_key=None, auth_token=KEY)
    assert bearer.models.list().data


@check
def too_large_a_body_is_refused():
    with raises(anthropic.APIStatusError, 413) as caught:
        strict.messages.create(**common("x" * (1 << 20)))
    assert caught[0].body["error"]["type"] == "request_too_large"


@check
def a_throttle_tells_when_to_come_back():
    with raises(anthropic.RateLimitError, 429) as caught:
        strict.messages.create(**common("throttled"))
    assert caught[0].response.headers["retry-after"] == "1"
    assert caught[0].body["error"]["type"] == "rate_limit_error"


@check
def a_client_that_comes_back_when_told_to_is_served():
    patient = strict.with_options(max_retries=2)
    began = time.monotonic()
    raw = patient.messages.with_raw_response.create(
        **{**common("throttled at first"), "model": "demo-small"}
    )
    took = time.monotonic() - began
    # By itself it would have tried again after half a second, in vain.
    assert raw.retries_taken == 1 and 1 <= took < 5, (raw.retries_taken, took)


@check
def a_stream_that_is_left_is_dropped():
    with client.messages.stream(**common("leaving")) as stream:
        next(iter(stream.text_stream))
        request = stream.response.headers["x-request-id"]
    leaves(request)


main("anthropic (Python)")
