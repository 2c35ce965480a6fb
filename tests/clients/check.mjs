// What all of the Node clients need: where the gateways are, and a list of checks to run.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

const environment = (name) => process.env[name] ?? assert.fail(`${name} is not set`);

// A demo that serves anybody, and one that asks for a key, takes small bodies only, waits for
// nothing and throttles each question when it is first asked.
export const OPEN = environment('GATEWAY_OPEN');
export const STRICT = environment('GATEWAY_STRICT');
export const KEY = environment('GATEWAY_KEY_TESTS');

// No log may hold any of these; `.ci/clients` looks for the word.
export const CALLER = 'sentinel-of-a-caller-in-node';
export const PROMPT = 'sentinel-of-a-prompt-in-node';
export const ANY_KEY = 'sentinel-of-any-key';

export const MODEL = 'demo-large';
export const BRIEFING = 'You answer in few words. '.repeat(100);

/** Runs all checks, whose names say what holds, and exits with what came of them. */
export async function main(title, checks) {
  let failed = 0;
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check();
      console.log(`ok    ${title}: ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL  ${title}: ${name}\n`, error);
    }
  }
  process.exit(failed ? 1 : 0);
}

/** Expects an error of a class of the client's. */
export async function raises(kind, status, ask) {
  let caught;
  try {
    await ask();
  } catch (error) {
    caught = error;
  }
  assert.ok(caught instanceof kind, `no ${kind.name}: ${caught}`);
  assert.equal(caught.status, status);
  return caught;
}

export async function collect(stream) {
  const all = [];
  for await (const one of stream) all.push(one);
  return all;
}

/** Counts the requests that a client makes. */
export function counting() {
  const counted = { requests: 0 };
  counted.fetch = (...parts) => {
    counted.requests += 1;
    return fetch(...parts);
  };
  return counted;
}

/** Holds once the gateway has let go of a request whose client has left. */
export async function leaves(requestId) {
  await until('the notice that the client left', () => wasCancelled(requestId));
  await until('nothing in flight', async () => {
    const { in_flight: held } = await (await fetch(`${OPEN}/pool`)).json();
    return held === 0;
  });
}

async function wasCancelled(requestId) {
  const log = await readFile(environment('GATEWAY_LOG'), 'utf8');
  return log.split('\n').some((line) => line.includes(requestId) && line.includes('outcome=Cancelled'));
}

async function until(what, holds) {
  const end = Date.now() + 5_000;
  while (!await holds()) {
    assert.ok(Date.now() < end, `${what} does not come to hold`);
    await new Promise((done) => setTimeout(done, 10));
  }
}
