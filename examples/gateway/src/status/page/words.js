// How things are called and written.

const byId = (id) => document.getElementById(id);

/** Makes an element. Content is text or elements, never markup. */
function make(tag, className = '', ...content) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...content);
  return element;
}

/** Sets a text, and leaves the document alone when it is the same. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// The order is "trouble first".
const CONDITIONS = {
  breaker_open: { name: 'Breaker open', mark: '✕' },
  cooling: { name: 'Cooling', mark: '◔' },
  half_open: { name: 'Half-open', mark: '◐' },
  banned: { name: 'Banned', mark: '⊘' },
  full: { name: 'Full', mark: '■' },
  draining: { name: 'Draining', mark: '▾' },
  maintenance: { name: 'Maintenance', mark: '◇' },
  disabled: { name: 'Disabled', mark: '○' },
  ready: { name: 'Ready', mark: '●' },
};
const SEVERITY = Object.fromEntries(Object.keys(CONDITIONS).map((name, index) => [name, index]));

const BLOCKS = {
  throttle: 'throttled',
  quota: 'quota spent',
  auth: 'credential rejected',
  overload: 'provider overloaded',
  quarantine: 'quarantined after errors',
  breaker: 'breaker keeps tripping',
  operator: 'blocked by the operator',
};

const REASONS = {
  disabled: 'switched off',
  banned: 'banned by the upstream',
  maintenance: 'in maintenance',
  draining: 'draining',
  excluded: 'excluded',
  not_entitled: 'does not serve this',
  model_blocked: 'model blocked by the operator',
  unbound: 'not bound',
  unknown_account: 'unknown account',
  throttled: 'throttled',
  quota_exhausted: 'quota spent',
  auth_failed: 'credential rejected',
  overloaded: 'provider overloaded',
  quarantined: 'quarantined after errors',
  breaker_open: 'breaker open',
  operator_block: 'blocked by the operator',
  rate_limit: 'request window full',
  token_limit: 'token window full',
  in_flight: 'in-flight limit reached',
  binding_limit: 'as many conversations as allowed',
};

const OUTCOMES = {
  internal: 'answered with an internal error',
  ban_signal: 'showed signs of a ban',
  network: 'could not be reached',
  timeout: 'timed out',
};

const plain = (label) => label.replaceAll('_', ' ');
const reason = (label) => REASONS[label] ?? plain(label);

/** A number for people: 1 234, 56.7k, 8.9M. */
function amount(value) {
  if (value < 10_000) return String(value);
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e3]]) {
    if (value >= size) return `${(value / size).toFixed(value < 100 * size ? 1 : 0)}${unit}`;
  }
}

const percent = (part) => `${Math.round(part * 100)}%`;

/** A span as a countdown shows it; the last second counts as one. */
function span(millis) {
  const seconds = Math.max(0, Math.ceil(millis / 1000));
  if (seconds < 60) return `${seconds} s`;
  const two = (number) => String(number).padStart(2, '0');
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${two(seconds % 60)} min`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)}`;
  return `${Math.floor(minutes / 1440)} d`;
}

/** The length of a window: 1 min, 5 h, 7 d. */
function length(millis) {
  const units = [['d', 86_400_000], ['h', 3_600_000], ['min', 60_000], ['s', 1000]];
  const [unit, size] = units.find(([, size]) => millis % size === 0) ?? ['ms', 1];
  return `${millis / size} ${unit}`;
}

const clockFormat = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium', hour12: false });
const clock = (instant) => clockFormat.format(new Date(instant));

// The pool's clock may differ from this machine's.
let clockOffset = 0;
const poolNow = () => Date.now() + clockOffset;

/** Text that counts down to an instant of the pool's clock. */
function countdown(until, className = 'left') {
  const element = make('span', className);
  element.dataset.until = until;
  say(element, span(until - poolNow()));
  return element;
}

function tickCountdowns() {
  for (const element of document.querySelectorAll('[data-until]')) {
    say(element, span(element.dataset.until - poolNow()));
  }
}
