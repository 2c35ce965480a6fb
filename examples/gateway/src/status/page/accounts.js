// The accounts as tiles. Only those on show are in the document.

const PAGE = matchMedia('(max-width: 560px)').matches ? 24 : 60;
const view = { condition: 'all', filter: '', order: 'trouble', limit: PAGE };
const LOW_QUOTA = 15;
const tiles = new Map();
const dirty = new Set();

const ORDERS = {
  trouble: (a, b) => SEVERITY[a.condition] - SEVERITY[b.condition] || a.place - b.place,
  load: (a, b) => b.in_flight - a.in_flight || a.place - b.place,
  headroom: (a, b) => (a.headroom ?? 1) - (b.headroom ?? 1) || a.place - b.place,
  name: (a, b) => a.id.localeCompare(b.id, undefined, { numeric: true }),
  inserted: (a, b) => a.place - b.place,
};

function matching() {
  const wanted = view.filter.toLowerCase();
  const fits = (account) =>
    (view.condition === 'all' || account.condition === view.condition) &&
    (!wanted || searchable(account).includes(wanted));
  return [...pool.accounts.values()].filter(fits).sort(ORDERS[view.order]);
}

function searchable(account) {
  const blocks = account.blocks.map((block) => BLOCKS[block.dimension] ?? block.dimension);
  return [account.id, CONDITIONS[account.condition]?.name, ...blocks].join(' ').toLowerCase();
}

function paintAccounts() {
  const found = matching();
  const shown = found.slice(0, view.limit);
  for (const account of shown) {
    let tile = tiles.get(account.id);
    if (!tile) {
      tile = newTile(account.id);
      tiles.set(account.id, tile);
      dirty.add(account.id);
    }
    if (dirty.delete(account.id)) paintTile(tile, account);
  }
  arrange(shown.map((account) => tiles.get(account.id).element));
  say(byId('shown'), found.length > shown.length || view.filter || view.condition !== 'all'
    ? `${shown.length} of ${pool.accounts.size}` : '');
  byId('more').hidden = found.length <= shown.length;
  byId('none').hidden = found.length > 0 || pool.accounts.size === 0;
}

/** Brings the tiles into order, unless that would pull one away under a pointer or a finger. */
function arrange(elements) {
  const list = byId('tiles');
  const wanted = new Set(elements);
  for (const child of [...list.children]) {
    if (!wanted.has(child)) {
      child.remove();
      tiles.delete(child.dataset.account);
    }
  }
  const held = list.querySelector('.actions:hover, :focus');
  elements.forEach((element, index) => {
    const moves = list.children[index] !== element && !(held && element.isConnected);
    if (moves) list.insertBefore(element, list.children[index] ?? null);
  });
}

function newTile(id) {
  const parts = {
    element: make('li', 'tile'),
    badge: make('span', 'badge'),
    why: make('ul', 'why'),
    meters: make('ul', 'meters'),
    foot: make('p', 'foot'),
    actions: make('div', 'actions'),
  };
  const name = make('span', 'name', id);
  name.title = id;
  parts.element.dataset.account = id;
  parts.element.append(make('header', '', name, parts.badge), parts.why, parts.meters, parts.foot, parts.actions);
  return parts;
}

function paintTile(tile, account) {
  const { name, mark } = CONDITIONS[account.condition] ?? { name: plain(account.condition), mark: '?' };
  tile.element.dataset.condition = account.condition;
  const icon = make('i', 'mark', mark);
  icon.ariaHidden = 'true';
  tile.badge.replaceChildren(icon, name);
  tile.why.replaceChildren(...grounds(account));
  tile.why.hidden = !tile.why.childElementCount;
  tile.meters.replaceChildren(...meters(account));
  say(tile.foot, footnote(account));
  paintActions(tile.actions, account);
}

/** Why it is not ready, and for how long. */
function grounds(account) {
  const lines = [];
  const line = (text, until, className = '') => {
    lines.push(make('li', className, make('span', '', text), until ? countdown(until) : ''));
  };
  if (account.breaker.open) line('errors; probe in', account.breaker.open.until);
  if (account.breaker === 'half_open') line('letting a probe pass');
  const whole = account.blocks.filter((block) => block.scope === 'account');
  const parts = account.blocks.filter((block) => block.scope !== 'account');
  for (const block of whole) line(blockText(block), block.until);
  for (const block of parts.slice(0, 2)) line(blockText(block), block.until, 'part');
  if (parts.length > 2) line(`and ${parts.length - 2} more models`, 0, 'part');
  for (const window of account.quota.windows) {
    const isLow = isKnown(window) && window.remaining <= LOW_QUOTA && window.reset != null;
    if (isLow && !whole.length) line('quota low; renewed in', window.reset, 'part');
  }
  if (account.draining) {
    const idle = account.in_flight === 0 && account.bound === 0;
    line(idle ? 'drained: nothing is left on it' : 'takes no new conversations');
  }
  return lines;
}

/** A reading says nothing any more once its window was renewed. */
function isKnown({ remaining, reset }) {
  return remaining != null && (reset == null || reset > poolNow());
}

function blockText(block) {
  const name = block.scope.model ?? block.scope.selector;
  const text = BLOCKS[block.dimension] ?? plain(block.dimension);
  const step = block.level > 0 ? `, step ${block.level + 1}` : '';
  return (name ? `${name}: ${text}` : text) + step;
}

function meters(account) {
  const rows = [];
  const row = (what, part, value) => {
    const fill = make('i');
    fill.style.setProperty('--part', Math.min(1, Math.max(0, part)));
    const meter = make('div', 'meter', fill);
    meter.dataset.level = part >= 1 ? 'spent' : part >= 0.85 ? 'high' : 'fine';
    meter.ariaHidden = 'true';
    rows.push(make('li', '', make('span', 'what', what), meter, make('span', 'value', value)));
  };
  const { in_flight: held, max_in_flight: most } = account;
  row('in flight', most == null ? 0 : most ? held / most : 1, most == null ? String(held) : `${held} / ${most}`);
  const window = (what, { limit, used }) =>
    row(`${what} ${length(limit.per)}`, limit.limit ? used / limit.limit : 1, `${amount(used)} / ${amount(limit.limit)}`);
  account.requests.forEach((it) => window('req', it));
  if (account.tokens) window('tok', account.tokens);
  account.quota.windows.forEach(({ remaining, reset, gates }) => {
    if (!isKnown({ remaining, reset })) return;
    row(gates ? 'quota' : 'soft quota', 1 - remaining / 100, `${Math.round(remaining)}% left`);
  });
  return rows;
}

function footnote(account) {
  const notes = [`${amount(account.bound)} conversation${account.bound === 1 ? '' : 's'}`];
  if (account.waiting) notes.push(`${account.waiting} waiting`);
  if (account.headroom != null) notes.push(`${percent(account.headroom)} headroom`);
  return notes.join(' · ');
}

function paintConditions() {
  const counts = pool.summary.conditions;
  const present = Object.keys(CONDITIONS).filter((name) => counts[name] || view.condition === name);
  byId('spectrum').replaceChildren(...present.filter((name) => counts[name]).map((name) => {
    const part = make('i');
    part.dataset.condition = name;
    part.style.setProperty('--count', counts[name]);
    return part;
  }));
  const list = byId('conditions');
  const names = ['all', ...present];
  const same = names.join() === [...list.children].map((it) => it.dataset.condition).join();
  if (!same) list.replaceChildren(...names.map(conditionButton));
  for (const button of list.children) {
    const name = button.dataset.condition;
    say(button.querySelector('b'), amount(name === 'all' ? pool.accounts.size : counts[name] ?? 0));
    button.ariaPressed = String(name === view.condition);
  }
}

function conditionButton(name) {
  const { name: text, mark } = CONDITIONS[name] ?? { name: 'All', mark: '' };
  const icon = make('i', 'mark', mark);
  icon.ariaHidden = 'true';
  const button = make('button', '', ...(mark ? [icon] : []), text, make('b'));
  button.type = 'button';
  button.dataset.condition = name;
  button.addEventListener('click', () => {
    view.condition = view.condition === name ? 'all' : name;
    show();
  });
  return button;
}

/** A new choice of what to show begins at its first page. */
function show() {
  view.limit = PAGE;
  paintConditions();
  paintAccounts();
}

byId('filter').addEventListener('input', (event) => {
  view.filter = event.target.value.trim();
  if (pool.summary) show();
});
byId('order').addEventListener('change', (event) => {
  view.order = event.target.value;
  if (pool.summary) show();
});
byId('more').addEventListener('click', () => {
  view.limit += PAGE * 4;
  paintAccounts();
});
