// Anthropic's Node client.

import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import {
  ANY_KEY, BRIEFING, CALLER, KEY, MODEL, OPEN, PROMPT, STRICT, collect, counting, leaves, main,
  raises,
} from './check.mjs';

const client = new Anthropic({ baseURL: OPEN, apiKey: ANY_KEY });
const strict = new Anthropic({ baseURL: STRICT, apiKey: KEY, maxRetries: 0 });

const WEATHER = {
  name: 'weather',
  description: 'The weather of a city',
  input_schema: { type: 'object', properties: { city: { type: 'string' } } },
};
const ARGUMENTS = { city: 'Paris' };

const asks = (text) => [{ role: 'user', content: `${PROMPT} ${text}` }];
const message = (text, more) => ({ model: MODEL, max_tokens: 256, messages: asks(text), ...more });

await main('anthropic (Node)', {
  async 'models are listed'() {
    const models = await collect(client.models.list());
    assert.deepEqual(models.map(({ id }) => id), ['demo-large', 'demo-small']);
  },

  async 'a plain answer has text and usage'() {
    const answer = await client.messages.create(message('plain', { metadata: { user_id: CALLER } }));
    assert.ok(answer.content[0].text && answer.usage.output_tokens > 0);
  },

  async 'a stream adds up to its message'() {
    const stream = client.messages.stream(message('streaming'));
    const words = [];
    stream.on('text', (word) => words.push(word));
    const final = await stream.finalMessage();
    assert.ok(words.length > 5);
    assert.equal(words.join(''), final.content[0].text);
    assert.equal(final.stop_reason, 'end_turn');
    assert.ok(final.usage.output_tokens > 1);
  },

  async 'a tool is called and its result read'() {
    const tools = [WEATHER];
    const messages = asks('tools');
    const first = await client.messages.create({ model: MODEL, max_tokens: 256, messages, tools });
    const [call] = first.content;
    assert.deepEqual([first.stop_reason, call.input], ['tool_use', ARGUMENTS]);
    messages.push({ role: 'assistant', content: first.content });
    messages.push({
      role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'sunny' }],
    });
    const second = await client.messages.create({ model: MODEL, max_tokens: 256, messages, tools });
    assert.ok(second.content[0].text);
  },

  async 'a tool is called in a stream'() {
    const final = await client.messages.stream(message('tools', { tools: [WEATHER] })).finalMessage();
    assert.deepEqual(final.content[0].input, ARGUMENTS);
  },

  async 'a conversation stays and reads its cache'() {
    const system = [{ type: 'text', text: BRIEFING, cache_control: { type: 'ephemeral' } }];
    const messages = asks('first');
    const accounts = new Set();
    const used = [];
    for (let turn = 0; turn < 3; turn += 1) {
      const { data, response } = await client.messages.create({
        model: MODEL, max_tokens: 256, system, messages,
        metadata: { user_id: `${CALLER}-who-stays` },
      }).withResponse();
      accounts.add(response.headers.get('x-demo-account'));
      used.push(data.usage);
      messages.push({ role: 'assistant', content: data.content }, ...asks('more'));
    }
    const written = used.map((it) => it.cache_creation_input_tokens);
    const read = used.map((it) => it.cache_read_input_tokens);
    assert.equal(accounts.size, 1);
    assert.ok(read[0] === 0 && 0 < read[1] && read[1] < read[2], `${read}`);
    assert.ok(written[0] > written[1] && written[1] > 0, `${written}`);
  },

  async 'an unknown model is not found'() {
    const error = await raises(Anthropic.NotFoundError, 404,
      () => client.messages.create(message('', { model: 'no-such-model' })));
    assert.equal(error.error.error.type, 'not_found_error');
  },

  async "an upstream's error keeps its shape"() {
    const error = await raises(Anthropic.BadRequestError, 400,
      () => client.messages.create({ model: MODEL, max_tokens: 256, messages: [] }));
    assert.deepEqual([error.error.type, error.error.error.type], ['error', 'invalid_request_error']);
  },

  async 'a missing or wrong key is refused, once'() {
    const counted = counting();
    const wrong = new Anthropic({
      baseURL: STRICT, apiKey: 'sentinel-of-a-wrong-key', fetch: counted.fetch,
    });
    for (const headers of [{}, { 'x-api-key': null }]) {
      const error = await raises(Anthropic.AuthenticationError, 401,
        () => wrong.messages.create(message(''), { headers }));
      assert.equal(error.error.error.type, 'authentication_error');
    }
    assert.equal(counted.requests, 2);
  },

  async 'too large a body is refused'() {
    const error = await raises(Anthropic.APIError, 413,
      () => strict.messages.create(message('x'.repeat(1 << 20))));
    assert.equal(error.error.error.type, 'request_too_large');
  },

  async 'a throttle tells when to come back'() {
    const error = await raises(Anthropic.RateLimitError, 429,
      () => strict.messages.create(message('throttled')));
    assert.equal(error.headers.get('retry-after'), '1');
    assert.equal(error.error.error.type, 'rate_limit_error');
  },

  async 'a client that comes back when told to is served'() {
    const counted = counting();
    const patient = strict.withOptions({ maxRetries: 2, fetch: counted.fetch });
    const began = performance.now();
    await patient.messages.create(message('throttled at first', { model: 'demo-small' }));
    const took = performance.now() - began;
    // By itself it would have tried again after half a second, in vain.
    assert.equal(counted.requests, 2);
    assert.ok(took >= 1_000 && took < 5_000, `${took} ms`);
  },

  async 'a stream that is left is dropped'() {
    const { data: stream, response } = await client.messages
      .create(message('leaving', { stream: true })).withResponse();
    for await (const _ of stream) break;
    await leaves(response.headers.get('x-request-id'));
  },
});
