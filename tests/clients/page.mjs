// The status page in a real browser: `node page.mjs http://127.0.0.1:8080/`, against a gateway
// that serves at least one account and was started with the admin token in GATEWAY_ADMIN_TOKEN.
// CHROMIUM names the browser, /usr/bin/chromium by default. Leaves the accounts as they were.

import assert from 'node:assert/strict';
import net from 'node:net';
import { chromium } from 'playwright-core';

const [base] = process.argv.slice(2);
const token = process.env.GATEWAY_ADMIN_TOKEN;
if (!base || !token) {
  console.error('usage: GATEWAY_ADMIN_TOKEN=… node page.mjs <base URL of the gateway>');
  process.exit(2);
}

const SIZES = [
  { name: '1280 px', viewport: { width: 1280, height: 800 } },
  { name: '390 px', viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true },
];
const CALLER = 'page-test:caller-key-sentinel';

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: [
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
  ],
});
try {
  for (const { name, ...size } of SIZES) {
    for (const colorScheme of ['light', 'dark']) {
      await visit({ ...size, colorScheme }, `${name}, ${colorScheme}`);
    }
  }
  await loseAndFind();
} finally {
  await browser.close();
}

/** Everything that a person does on the page, without an error in its console. */
async function visit(options, name) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  // Longer than two states are apart, shorter than the page takes to give up on a stream.
  page.setDefaultTimeout(8_000);
  const complaints = listen(page);
  await page.goto(base);
  await page.waitForSelector('body[data-link="live"]');
  await page.waitForSelector('.tile');
  await fits(page, 'at first');
  await named(page);
  await updates(page);
  await explains(page);
  await administers(page);
  await fits(page, 'in the end');
  assert.deepEqual(complaints, [], `${name}: the console is empty`);
  await context.close();
  console.log(`ok  ${name}`);
}

/** Collects errors and warnings of the console, of scripts and of requests. */
function listen(page) {
  const complaints = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('requestfailed', (request) => {
    // A stream is cut when its page is left.
    if (!request.url().endsWith('/events')) complaints.push(`${request.url()} failed`);
  });
  return complaints;
}

async function fits(page, when) {
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.equal(width, page.viewportSize().width, `no horizontal overflow ${when}`);
}

/** What can be operated has a name for those who do not see it. */
async function named(page) {
  const nameless = await page.evaluate(() =>
    [...document.querySelectorAll('button, input, select, a')]
      .filter((it) => it.checkVisibility() && !(it.ariaLabel || it.textContent.trim() || it.labels?.[0]?.textContent.trim()))
      .map((it) => it.outerHTML));
  assert.deepEqual(nameless, [], 'every control has a name');
}

/** A change that somebody else makes shows without a reload. */
async function updates(page) {
  const account = await working();
  await find(page, account);
  await act('maintenance-on', account);
  try {
    await page.waitForFunction(isIn, [account, 'maintenance']);
  } finally {
    await act('maintenance-off', account);
  }
  await page.waitForFunction(isOut, [account, 'maintenance']);
  await page.fill('#filter', '');
}

async function explains(page) {
  await page.fill('#explain-caller', CALLER);
  await page.fill('#explain-model', 'a-model');
  const { selectors } = await (await fetch(new URL('pool', base))).json();
  assert.equal(await page.locator('#explain-selector').isVisible(), selectors.length > 0);
  await page.click('#explain-form button');
  await page.waitForSelector('#ranking li');
  const verdict = await page.textContent('#verdict');
  assert.match(verdict, /would serve|Refused|Worth waiting/, verdict);
  const ranking = await page.textContent('#ranking');
  assert.doesNotMatch(ranking, /NaN|undefined|null|\[object/, ranking);
  const told = await (await fetch(new URL('pool', base))).text();
  assert.ok(!told.includes('sentinel'), 'the caller is told to nobody');
}

/** Unlocks, takes an account into maintenance and back, and locks again. */
async function administers(page) {
  assert.equal(await page.locator('.actions button:visible').count(), 0, 'locked at first');
  await page.click('#unlock');
  await page.fill('#token', token);
  await page.click('#token-form [type=submit]');
  await page.waitForSelector('#token-dialog', { state: 'hidden' });
  const account = await working();
  const tile = await find(page, account);
  await tile.locator('[data-action="maintenance-on"]').click();
  assert.equal(await page.textContent('#confirm-account'), account);
  await page.click('#confirm-dialog [data-close]');
  await tile.locator('[data-action="maintenance-on"]').click();
  await page.click('#confirm-do');
  await page.waitForFunction(isIn, [account, 'maintenance']);
  await tile.locator('[data-action="maintenance-off"]').click();
  await page.click('#confirm-do');
  await page.waitForFunction(isOut, [account, 'maintenance']);
  await page.waitForSelector('#confirm-dialog', { state: 'hidden' });
  await page.fill('#filter', '');
  assert.ok(!page.url().includes(token), 'the token is not in the address');
  await page.click('#unlock');
  assert.equal(await page.locator('.actions button:visible').count(), 0, 'locked again');
}

/** A page that hears nothing says so, and recovers by itself: from silence, and from a cut. */
async function loseAndFind() {
  const gateway = new URL(base);
  const pairs = new Set();
  const between = net.createServer((near) => {
    const far = net.connect(Number(gateway.port || 80), gateway.hostname);
    const pair = [near, far];
    pairs.add(pair);
    for (const [from, to] of [[near, far], [far, near]]) {
      from.pipe(to);
      from.on('error', () => {});
      from.on('close', () => {
        to.destroy();
        pairs.delete(pair);
      });
    }
  });
  await new Promise((done) => between.listen(0, '127.0.0.1', done));
  const context = await browser.newContext({ viewport: SIZES[0].viewport });
  const page = await context.newPage();
  await page.goto(`http://127.0.0.1:${between.address().port}/`);
  await page.waitForSelector('body[data-link="live"]');
  for (const [near, far] of pairs) {
    far.unpipe(near);
    far.pause();
  }
  await page.waitForSelector('body[data-link="stale"]');
  await page.waitForSelector('body[data-link="live"]');
  const { port } = between.address();
  between.close();
  for (const pair of pairs) pair.forEach((socket) => socket.destroy());
  await page.waitForSelector('body[data-link="stale"]');
  await new Promise((done) => between.listen(port, '127.0.0.1', done));
  await page.waitForSelector('body[data-link="live"]');
  await context.close();
  between.close();
  for (const pair of pairs) pair.forEach((socket) => socket.destroy());
  console.log('ok  lost and found');
}

/** The last account that nobody has switched off or taken into maintenance. */
async function working() {
  const { accounts } = await (await fetch(new URL('pool', base))).json();
  const fit = ({ maintenance, status }) => !maintenance && ['active', 'error'].includes(status);
  const { id } = accounts.findLast(fit) ?? assert.fail('no account is in service');
  return id;
}

async function find(page, account) {
  await page.fill('#filter', account);
  const tile = page.locator(`.tile[data-account="${quoted(account)}"]`);
  await tile.waitFor();
  return tile;
}

function quoted(text) {
  return text.replace(/["\\]/g, '\\$&').replace(/\n/g, '\\a ');
}

async function act(action, account) {
  const response = await fetch(new URL(`admin/${action}`, base), {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ account }),
  });
  assert.equal(response.status, 200, `${action} works`);
}

function isIn([account, condition]) {
  return [...document.querySelectorAll('.tile')].some((tile) =>
    tile.dataset.account === account && tile.dataset.condition === condition);
}

function isOut([account, condition]) {
  return [...document.querySelectorAll('.tile')].some((tile) =>
    tile.dataset.account === account && tile.dataset.condition !== condition);
}
