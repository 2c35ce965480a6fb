// OpenAI's Node client.

import assert from 'node:assert/strict';
import OpenAI from 'openai';
import {
  ANY_KEY, BRIEFING, CALLER, KEY, MODEL, OPEN, PROMPT, STRICT, collect, counting, leaves, main,
  raises,
} from './check.mjs';

const client = new OpenAI({ baseURL: `${OPEN}/v1`, apiKey: ANY_KEY });
const strict = new OpenAI({ baseURL: `${STRICT}/v1`, apiKey: KEY, maxRetries: 0 });

const WEATHER = {
  name: 'weather',
  description: 'The weather of a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
};
const TOOLS = [{ type: 'function', function: WEATHER }];
const ARGUMENTS = { city: 'Paris' };

const asks = (text) => [{ role: 'user', content: `${PROMPT} ${text}` }];
const chat = (text, more) => ({ model: MODEL, messages: asks(text), ...more });

await main('openai (Node)', {
  async 'models are listed'() {
    const models = await collect(client.models.list());
    assert.deepEqual(models.map(({ id }) => id), ['demo-large', 'demo-small']);
  },

  async 'a plain answer has text and usage'() {
    const answer = await client.chat.completions.create(chat('plain', { user: CALLER }));
    assert.ok(answer.choices[0].message.content);
    assert.equal(answer.choices[0].finish_reason, 'stop');
    assert.ok(answer.usage.prompt_tokens > 0 && answer.usage.completion_tokens > 0);
  },

  async 'a stream ends with its usage'() {
    const chunks = await collect(await client.chat.completions.create(
      chat('streaming', { stream: true, stream_options: { include_usage: true } })));
    assert.ok(chunks.filter(({ choices }) => choices[0]?.delta.content).length > 5);
    assert.ok(chunks.at(-1).usage.completion_tokens > 0);
  },

  async 'a tool is called and its result read'() {
    const messages = asks('tools');
    const first = await client.chat.completions.create({ model: MODEL, messages, tools: TOOLS });
    const { message, finish_reason: reason } = first.choices[0];
    assert.equal(reason, 'tool_calls');
    assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), ARGUMENTS);
    messages.push(message, { role: 'tool', tool_call_id: message.tool_calls[0].id, content: 'sunny' });
    const second = await client.chat.completions.create({ model: MODEL, messages, tools: TOOLS });
    assert.ok(second.choices[0].message.content);
  },

  async 'a tool is called in a stream'() {
    const stream = client.chat.completions.stream(chat('tools', { tools: TOOLS }));
    const { choices: [{ message }] } = await stream.finalChatCompletion();
    assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), ARGUMENTS);
  },

  async 'a conversation stays and reads its cache'() {
    const messages = [{ role: 'system', content: BRIEFING }, ...asks('first')];
    const accounts = new Set();
    const read = [];
    for (let turn = 0; turn < 3; turn += 1) {
      const { data, response } = await client.chat.completions
        .create({ model: MODEL, user: `${CALLER}-who-stays`, messages }).withResponse();
      accounts.add(response.headers.get('x-demo-account'));
      read.push(data.usage.prompt_tokens_details.cached_tokens);
      messages.push(data.choices[0].message, ...asks('more'));
    }
    assert.equal(accounts.size, 1);
    assert.ok(read[0] === 0 && 0 < read[1] && read[1] < read[2], `${read}`);
  },

  async 'a response streams, and has text and usage'() {
    const input = { model: MODEL, instructions: BRIEFING, input: PROMPT, prompt_cache_key: CALLER };
    const whole = await client.responses.create(input);
    assert.ok(whole.output_text);
    const events = await collect(await client.responses.create({ ...input, stream: true }));
    const { response } = events.find(({ type }) => type === 'response.completed');
    const deltas = events.filter(({ type }) => type === 'response.output_text.delta');
    assert.equal(deltas.map(({ delta }) => delta).join(''), response.output[0].content[0].text);
    assert.equal(response.usage.input_tokens_details.cached_tokens, whole.usage.input_tokens);
  },

  async 'a response calls a tool and reads its result'() {
    const tools = [{ type: 'function', ...WEATHER }];
    const input = asks('tools');
    const { output: [call] } = await client.responses.create({ model: MODEL, input, tools });
    assert.deepEqual(JSON.parse(call.arguments), ARGUMENTS);
    input.push(call, { type: 'function_call_output', call_id: call.call_id, output: 'sunny' });
    assert.ok((await client.responses.create({ model: MODEL, input, tools })).output_text);
  },

  async 'an unknown model is not found'() {
    const error = await raises(OpenAI.NotFoundError, 404,
      () => client.chat.completions.create({ model: 'no-such-model', messages: asks('') }));
    assert.equal(error.code, 'model_not_found');
    assert.ok(error.requestID);
  },

  async "an upstream's error keeps its shape"() {
    const error = await raises(OpenAI.BadRequestError, 400,
      () => client.chat.completions.create({ model: MODEL, messages: [] }));
    assert.deepEqual([error.type, error.code], ['invalid_request_error', 'invalid_request']);
  },

  async 'a missing or wrong key is refused, once'() {
    const counted = counting();
    const wrong = new OpenAI({
      baseURL: `${STRICT}/v1`, apiKey: 'sentinel-of-a-wrong-key', fetch: counted.fetch,
    });
    for (const headers of [{}, { authorization: null }]) {
      const error = await raises(OpenAI.AuthenticationError, 401,
        () => wrong.chat.completions.create(chat(''), { headers }));
      assert.equal(error.code, 'invalid_api_key');
    }
    assert.equal(counted.requests, 2);
  },

  async 'too large a body is refused'() {
    for (const megabytes of [1, 20]) {
      const error = await raises(OpenAI.APIError, 413,
        () => strict.chat.completions.create(chat('x'.repeat(megabytes << 20))));
      assert.equal(error.code, 'request_too_large');
    }
  },

  async 'a throttle tells when to come back'() {
    const error = await raises(OpenAI.RateLimitError, 429,
      () => strict.chat.completions.create(chat('throttled')));
    assert.equal(error.headers.get('retry-after'), '1');
  },

  async 'a client that comes back when told to is served'() {
    const counted = counting();
    const patient = strict.withOptions({ maxRetries: 2, fetch: counted.fetch });
    const began = performance.now();
    await patient.chat.completions.create({ model: 'demo-small', messages: asks('throttled at first') });
    const took = performance.now() - began;
    // By itself it would have tried again after half a second, in vain.
    assert.equal(counted.requests, 2);
    assert.ok(took >= 1_000 && took < 5_000, `${took} ms`);
  },

  async 'a stream that is left is dropped'() {
    const { data: stream, response } = await client.chat.completions
      .create(chat('leaving', { stream: true })).withResponse();
    for await (const _ of stream) break;
    await leaves(response.headers.get('x-request-id'));
  },

  async 'a request that is aborted is dropped'() {
    const control = new AbortController();
    const { data: stream, response } = await client.chat.completions
      .create(chat('aborted', { stream: true }), { signal: control.signal }).withResponse();
    control.abort();
    await collect(stream);
    await leaves(response.headers.get('x-request-id'));
  },
});
