// The stream of states, and painting what it brings.

const MOST_EVENTS = 100;
const STALE_AFTER = 4_000;
const GIVE_UP_AFTER = 15_000;
let source;
let heardAt = performance.now();
let delay = 1_000;
let painting = false;

function connect() {
  source?.close();
  source = new EventSource('events');
  source.addEventListener('state', (event) => receive(JSON.parse(event.data), true));
  source.addEventListener('delta', (event) => receive(JSON.parse(event.data), false));
  const opened = source;
  source.addEventListener('error', () => {
    // The browser tries again by itself, but not after an answer that is no stream.
    if (opened !== source || source.readyState !== EventSource.CLOSED) return;
    setTimeout(connect, delay);
    delay = Math.min(delay * 2, 30_000);
  });
}

function receive({ accounts, events, ...summary }, whole) {
  heardAt = performance.now();
  delay = 1_000;
  clockOffset = summary.at - Date.now();
  pool.summary = summary;
  if (whole) {
    pool.accounts.clear();
    pool.events.clear();
  }
  for (const account of accounts) {
    const place = pool.accounts.get(account.id)?.place ?? pool.accounts.size;
    pool.accounts.set(account.id, { ...account, place });
    dirty.add(account.id);
  }
  for (const event of events) pool.events.set(event.id, event);
  const old = [...pool.events.keys()].sort((a, b) => b - a).slice(MOST_EVENTS);
  for (const id of old) pool.events.delete(id);
  pool.newEvents ||= whole || events.length > 0;
  if (!painting) requestAnimationFrame(paint);
  painting = true;
}

function paint() {
  painting = false;
  paintConditions();
  paintFigures();
  paintAccounts();
  paintCounters();
  paintSelectors();
  if (pool.newEvents) paintEvents();
  pool.newEvents = false;
  paintLock();
  paintLink();
  const { conditions } = pool.summary;
  const troubled = (conditions.breaker_open ?? 0) + (conditions.cooling ?? 0) + (conditions.banned ?? 0);
  document.title = troubled ? `(${troubled}) Account pool` : 'Account pool';
}

function paintLink() {
  const silence = performance.now() - heardAt;
  const state = silence >= STALE_AFTER ? 'stale' : pool.summary ? 'live' : 'waiting';
  const seconds = Math.round(silence / 1000);
  say(byId('link-text'), {
    live: 'Live',
    waiting: 'Connecting…',
    stale: pool.summary ? `Stale: nothing heard for ${seconds} s` : `No answer for ${seconds} s`,
  }[state]);
  if (document.body.dataset.link === state) return;
  if (document.body.dataset.link === 'stale') say(byId('spoken'), 'The page is live again');
  if (state === 'stale') say(byId('spoken'), 'The page is stale: nothing is heard from the gateway');
  document.body.dataset.link = state;
}

let triedAt = performance.now();
setInterval(() => {
  paintLink();
  tickCountdowns();
  // A connection may be dead without anybody telling.
  const now = performance.now();
  const isOpen = source.readyState !== EventSource.CLOSED;
  if (isOpen && now - Math.max(heardAt, triedAt) > GIVE_UP_AFTER) {
    triedAt = now;
    connect();
  }
}, 1_000);

connect();
