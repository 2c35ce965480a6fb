"""Google's Python client."""

from google import genai
from google.genai import errors, types

from check import ANY_KEY, BRIEFING, KEY, MODEL, OPEN, PROMPT, STRICT, check, main


def connect(url, key):
    return genai.Client(api_key=key, http_options=types.HttpOptions(base_url=url))


client = connect(OPEN, ANY_KEY)
strict = connect(STRICT, KEY)


def refused(ask):
    try:
        ask()
    except errors.APIError as error:
        return error
    raise AssertionError("no error")


@check
def models_are_listed():
    names = [model.name for model in client.models.list()]
    assert names == ["models/demo-large", "models/demo-small"], names


@check
def a_plain_answer_has_text_and_usage():
    answer = client.models.generate_content(model=MODEL, contents=PROMPT)
    assert answer.text and answer.usage_metadata.candidates_token_count > 0


@check
def a_stream_ends_with_its_usage():
    chunks = list(client.models.generate_content_stream(model=MODEL, contents=PROMPT))
    assert len(chunks) > 5 and "".join(chunk.text or "" for chunk in chunks)
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP


@check
def a_tool_is_called():
    weather = types.FunctionDeclaration(
        name="weather", description="The weather of a city",
        parameters={"type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
    )
    tools = [types.Tool(function_declarations=[weather])]
    answer = client.models.generate_content(
        model=MODEL, contents=PROMPT, config=types.GenerateContentConfig(tools=tools)
    )
    [call] = answer.function_calls
    assert (call.name, call.args) == ("weather", {"city": "Paris"})


@check
def a_chat_goes_on():
    config = types.GenerateContentConfig(system_instruction=BRIEFING)
    chat = client.chats.create(model=MODEL, config=config)
    for text in ["first", "second"]:
        assert chat.send_message(f"{PROMPT} {text}").text


@check
def an_unknown_model_is_not_found():
    error = refused(lambda: client.models.generate_content(model="no-such-model", contents="a"))
    assert (error.code, error.status) == (404, "NOT_FOUND"), error


@check
def a_wrong_key_is_refused():
    wrong = connect(STRICT, "sentinel-of-a-wrong-key")
    error = refused(lambda: wrong.models.generate_content(model=MODEL, contents="a"))
    assert (error.code, error.status) == (401, "UNAUTHENTICATED"), error


@check
def too_large_a_body_is_refused():
    error = refused(lambda: strict.models.generate_content(model=MODEL, contents="x" * (1 << 20)))
    assert error.code == 413, error


@check
def a_throttle_tells_when_to_come_back():
    error = refused(lambda: strict.models.generate_content(model=MODEL, contents="throttled"))
    assert (error.code, error.status) == (429, "RESOURCE_EXHAUSTED"), error
    assert error.response.headers["retry-after"] == "1"


main("google-genai (Python)")
