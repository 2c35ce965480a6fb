// Figures, counters and events.

const samples = [];

/** Selections per second over the last ten states. */
function rate() {
  const { at, counters } = pool.summary;
  const total = sum(Object.values(counters.selected));
  const last = samples.at(-1);
  if (last && total < last.total) samples.length = 0;
  if (!last || at > last.at) samples.push({ at, total });
  if (samples.length > 10) samples.shift();
  const passed = at - samples[0].at;
  return passed > 0 ? ((total - samples[0].total) * 1000) / passed : null;
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

function paintFigures() {
  const { in_flight: held, waiting, counters } = pool.summary;
  const { sticky, selected, refused, cached_share: cached } = counters;
  const perSecond = rate();
  const found = sticky.hits + sticky.warm_hits + sticky.cold_moves + sticky.refusals + sticky.waits;
  const total = sum(Object.values(selected));
  figures([
    ['In flight', amount(held)],
    ['Waiting', amount(waiting)],
    ['Selections', perSecond == null ? '–' : perSecond.toFixed(perSecond < 10 ? 1 : 0), perSecond == null ? '' : '/ s'],
    ['Sticky hits', found ? percent(sticky.hits / found) : '–', found ? `of ${amount(found)}` : ''],
    ['Read from cache', cached == null ? '–' : percent(cached), cached == null ? '' : 'of input'],
    ['Refused', amount(refused), refused ? share(refused, total + refused) : ''],
  ]);
  byId('drought').hidden = !pool.summary.drought;
}

function share(part, whole) {
  const value = (part / whole) * 100;
  return value > 0 && value < 0.1 ? '< 0.1%' : `${value.toFixed(value < 10 ? 1 : 0)}%`;
}

function figures(rows) {
  const list = byId('figures');
  if (list.childElementCount !== rows.length) {
    list.replaceChildren(...rows.map(([name]) =>
      make('div', '', make('dt', '', name), make('dd', '', make('span'), ' ', make('small')))));
  }
  rows.forEach(([, value, note = ''], index) => {
    const cell = list.children[index].lastElementChild;
    say(cell.firstElementChild, value);
    say(cell.lastElementChild, note);
  });
}

const LOOK_UPS = {
  hits: 'stayed on their account',
  warm_hits: 'went to another warm account',
  cold_moves: 'moved to a cold account',
  refusals: 'refused',
  waits: 'advised to wait',
  misses: 'not bound yet',
  creates: 'newly bound',
  expiries: 'lapsed',
  evictions: 'gave way to others',
};

const TABLES = [
  ['Selections by path', (it) => it.selected],
  ['Conversations', (it) => it.sticky, (name) => LOOK_UPS[name] ?? plain(name)],
  ['Refusals by reason', (it) => it.refused_by_reason, reason],
  ['Outcomes', (it) => it.outcomes],
  ['Tokens', ({ usage: { input, output, cache_read, cache_write } }) => ({ input, output, cache_read, cache_write })],
  ['Leases', ({ settled, reaped, refunded, waits }) => ({ settled, reaped, refunded, 'advised to wait': waits })],
];

function paintCounters() {
  byId('tables').replaceChildren(...TABLES.flatMap(([title, pick, word = plain]) => {
    const rows = Object.entries(pick(pool.summary.counters)).filter(([, count]) => count > 0);
    if (!rows.length) return [];
    const body = make('tbody', '', ...rows.map(([name, count]) => {
      const head = make('th', '', word(name));
      head.scope = 'row';
      return make('tr', '', head, make('td', '', count.toLocaleString()));
    }));
    return [make('table', '', make('caption', '', title), body)];
  }));
}

const AWAY = { model: ' is away for a model', selector: ' is away for a selector' };

const EVENTS = {
  refused: (it) => ['Refused a request', it.reason ? `: ${reason(it.reason)}` : ''],
  failed: (it) => [it, ` ${OUTCOMES[it.reason] ?? `failed: ${plain(it.reason)}`}`],
  reaped: (it) => ['A silent request on ', it, ' was given up'],
  blocked: (it) => [it, `${AWAY[it.scope] ?? ' is away'}: ${reason(it.reason)}`],
  unblocked: (it) => [it, ` is back: no longer ${reason(it.reason)}`],
  breaker_opened: (it) => ['Breaker of ', it, ' opened'],
  breaker_half_open: (it) => ['Breaker of ', it, ' lets a probe pass'],
  breaker_closed: (it) => ['Breaker of ', it, ' closed'],
  banned: (it) => [it, ' was banned by its upstream'],
  moved_cold: () => ['A conversation moved to a cold account'],
  evicted: () => ['A binding gave way to a newer one'],
  drain: (it) => ['Operator drained ', it],
  undrain: (it) => ['Operator ended the drain of ', it],
  clear: (it) => ['Operator cleared the blocks of ', it],
  maintenance_on: (it) => ['Operator took ', it, ' into maintenance'],
  maintenance_off: (it) => ['Operator ended the maintenance of ', it],
};

function paintEvents() {
  const events = [...pool.events.values()].sort((a, b) => b.at - a.at || b.id - a.id);
  byId('log').replaceChildren(...events.map((event) => {
    const words = (EVENTS[event.kind] ?? (() => [plain(event.kind)]))(event);
    const what = make('span', 'what', ...words.map((word) =>
      typeof word === 'string' ? word : make('b', '', word.account)));
    if (event.until > event.at) what.append(`, until ${clock(event.until)}`);
    const time = make('time', '', clock(event.at));
    time.dateTime = new Date(event.at).toISOString();
    return make('li', '', time, what, make('span', 'times', event.count > 1 ? `× ${amount(event.count)}` : ''));
  }));
  const empty = byId('events-none');
  empty.hidden = events.length > 0;
  if (!pool.summary.observed) say(empty, 'Events go to another observer of the pool.');
}
