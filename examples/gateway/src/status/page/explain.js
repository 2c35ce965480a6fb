// Why a request would be decided as it would.

const PATHS = {
  sticky: 'the account of this conversation',
  warm: 'another account of this conversation, still warm',
  pin: 'the account this caller is pinned to',
  degraded: 'nobody is eligible; it is the throttled account closest to recovery',
  acquired: 'the account that was asked for',
};
const TERMS = { fallback_only: 'being a reserve', soft_limit: 'being past a soft limit' };
const PLAIN_TERMS = ['tier', 'in_flight', 'bound_callers', 'trouble'];
const FIRST_ROWS = 30;
let asked = 0;

byId('explain-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const query = new URLSearchParams(new FormData(event.target));
  const question = ++asked;
  byId('explain-answer').hidden = false;
  try {
    const response = await fetch(`explain?${query}`, { cache: 'no-store' });
    if (!response.ok) throw new Error(`the gateway answered ${response.status}`);
    const answer = await response.json();
    if (question === asked) paintExplanation(answer, query.get('caller').trim() !== '');
  } catch (error) {
    if (question !== asked) return;
    say(byId('verdict'), `No answer: ${error.message}`);
    say(byId('tally'), '');
    byId('ranking').replaceChildren();
    byId('ranking-more').hidden = true;
  }
});

/** What a request always carries one of, if anything. */
function paintSelectors() {
  const { selectors } = pool.summary;
  const list = byId('explain-selector');
  byId('explain-selector-field').hidden = selectors.length === 0;
  if (list.options.length === selectors.length) return;
  list.replaceChildren(...selectors.map((name) => make('option', '', name)));
}

function paintExplanation({ at, decision, accounts }, hasCaller) {
  byId('verdict').replaceChildren(...verdict(decision, at, hasCaller));
  say(byId('tally'), tally(accounts));
  const chosen = decision.selected?.account ?? decision.refused?.wait_for;
  const best = accounts.find((account) => account.tied)?.rank;
  const rows = accounts
    .map((account) => ({ account, weight: weigh(account, chosen) }))
    .sort((a, b) => a.weight - b.weight)
    .map(({ account }) => account);
  const paint = (count) => {
    byId('ranking').replaceChildren(...rows.slice(0, count).map((row) => explained(row, chosen, best, at)));
  };
  paint(FIRST_ROWS);
  const more = byId('ranking-more');
  more.hidden = rows.length <= FIRST_ROWS;
  say(more, `Show all ${rows.length}`);
  more.onclick = () => {
    paint(rows.length);
    more.hidden = true;
  };
}

function verdict({ selected, refused }, at, hasCaller) {
  if (selected) {
    const { account, path, tied } = selected;
    const among = hasCaller ? `this caller’s place among ${tied} equally good accounts` : `one of ${tied} equally good accounts`;
    const how = path === 'rank' ? (tied > 1 ? among : 'the best by rank') : PATHS[path] ?? plain(path);
    return [make('b', '', account), ` would serve: ${how}.`];
  }
  const { wait_for: account, retry_at: retry, load_only: busy } = refused;
  if (account) return ['Worth waiting for ', make('b', '', account), ', the account of this conversation.'];
  if (retry != null) return [make('b', '', 'Refused.'), ` The same request succeeds in ${span(retry - at)}, at ${clock(retry)}.`];
  if (busy) return [make('b', '', 'Refused'), ' until a running request ends.'];
  return [make('b', '', 'Refused.'), ' Waiting will not help.'];
}

function tally(accounts) {
  const counts = new Map();
  for (const { rejection, tied } of accounts) {
    const label = rejection ? reason(rejection.reason) : tied ? 'best' : 'eligible';
    counts.set(label, (counts.get(label) ?? 0) + 1);
  }
  const place = (label) => ['best', 'eligible'].indexOf(label) + 1 || 3;
  const sorted = [...counts].sort(([a, most], [b, more]) => place(a) - place(b) || more - most);
  return sorted.map(([label, count]) => `${count} ${label}`).join(' · ');
}

/** Smaller comes first: the chosen one, the conversation's, the best, the others, the rejected. */
function weigh({ account, rejection, tied, trail }, chosen) {
  if (account === chosen) return -2;
  if (trail != null) return -1;
  if (!rejection) return tied ? 0 : 1;
  return liftedAt(rejection.lift) != null ? 2 : 3;
}

function explained({ account, rejection, rank, tied, trail }, chosen, best, at) {
  const grounds = [];
  if (trail != null) grounds.push(trail === 0 ? 'served this conversation last' : 'served this conversation before');
  let says = 'Eligible';
  let tone = 'ready';
  if (rejection) {
    [says, tone] = ['Kept away', 'cooling'];
    grounds.push(reason(rejection.reason) + lift(rejection.lift, at));
  } else if (tied) {
    says = 'As good';
  } else if (best) {
    grounds.push(behind(rank, best));
  }
  if (account === chosen) says = rejection ? 'Waited for' : 'Serves';
  const name = make('span', 'name', account);
  name.title = account;
  const row = make('li', '', name, make('span', 'says', says));
  row.dataset.condition = tone;
  if (grounds.length) row.append(make('span', 'grounds', grounds.join(' · ')));
  return row;
}

/** When time alone lifts a rejection. What is not lifted by time is a text, which has an `at` of its own. */
function liftedAt(lift) {
  return typeof lift === 'object' ? lift.at : null;
}

function lift(lift, at) {
  const lifted = liftedAt(lift);
  if (lifted != null) return `, for ${span(lifted - at)}`;
  return lift === 'release' ? ', until a request ends' : '';
}

/** The first term in which an account is worse than the best. */
function behind(rank, best) {
  const index = rank.findIndex(({ value }, index) => value !== best[index]?.value);
  if (index < 0) return 'as good as the best';
  const { term, value } = rank[index];
  const label = term.term ?? term;
  const numbers = PLAIN_TERMS.includes(label) ? ` (${value} against ${best[index].value})` : '';
  return `behind by ${TERMS[label] ?? plain(label)}${numbers}`;
}
