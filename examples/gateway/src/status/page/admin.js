// What the operator may do, with the token. It is kept in this tab and sent in a header alone.

const STORED = 'account-pool-admin-token';
let token = recall();

const ACTIONS = {
  drain: ['Drain', 'It takes no new conversations. Those that are bound to it stay.'],
  undrain: ['End drain', 'It takes new conversations again.'],
  'maintenance-on': ['Maintenance', 'It serves nobody until the maintenance ends. Requests under way go on.'],
  'maintenance-off': ['End maintenance', 'It serves again.'],
  clear: ['Clear', 'All its cooldowns end now. If their causes last, the next requests fail.'],
};

function recall() {
  try {
    return sessionStorage.getItem(STORED) ?? '';
  } catch {
    return '';
  }
}

function remember(value) {
  token = value;
  try {
    if (value) sessionStorage.setItem(STORED, value);
    else sessionStorage.removeItem(STORED);
  } catch {
    // Without storage the token lasts until the page is left.
  }
  paintLock();
}

function paintLock() {
  const button = byId('unlock');
  button.hidden = !pool.summary?.admin;
  say(button, token ? 'Lock' : 'Unlock');
  for (const tile of tiles.values()) tile.actions.hidden = !unlocked();
}

const unlocked = () => Boolean(token && pool.summary?.admin);

async function post(action, body, withToken = token) {
  const response = await fetch(`admin/${action}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${withToken}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (response.ok) return;
  if (response.status === 401) throw new Error('The token is not the right one.');
  const answer = await response.json().catch(() => ({}));
  throw new Error(answer.error ?? `The gateway answered ${response.status}.`);
}

function paintActions(element, account) {
  element.hidden = !unlocked();
  const names = [
    account.draining ? 'undrain' : 'drain',
    account.maintenance ? 'maintenance-off' : 'maintenance-on',
    ...(account.blocks.length ? ['clear'] : []),
  ];
  // Buttons that stay keep the focus.
  if (element.dataset.names === names.join()) return;
  element.dataset.names = names.join();
  element.replaceChildren(...names.map((name) => {
    const button = make('button', '', ACTIONS[name][0]);
    button.type = 'button';
    button.dataset.action = name;
    button.ariaLabel = `${ACTIONS[name][0]}: ${account.id}`;
    button.addEventListener('click', () => confirmAction(name, account.id));
    return button;
  }));
}

let pending = null;

function confirmAction(action, account) {
  pending = { action, account };
  const [name, text] = ACTIONS[action];
  say(byId('confirm-title'), action === 'clear' ? 'Clear all blocks?' : `${name}?`);
  say(byId('confirm-account'), account);
  say(byId('confirm-text'), text);
  say(byId('confirm-do'), name);
  say(byId('confirm-failure'), '');
  byId('confirm-dialog').showModal();
}

/** Runs what a form asks for, once at a time, and closes its dialog if that worked. */
function submits(form, failure, run) {
  const button = form.querySelector('[type=submit]');
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    button.disabled = true;
    say(failure, '');
    try {
      await run();
      form.closest('dialog').close();
    } catch (error) {
      say(failure, error.message);
    } finally {
      button.disabled = false;
    }
  });
}

submits(byId('confirm-form'), byId('confirm-failure'), async () => {
  const { action, account } = pending;
  await post(action, { account });
  say(byId('spoken'), `${ACTIONS[action][0]}: done for ${account}`);
});

submits(byId('token-form'), byId('token-failure'), async () => {
  const offered = byId('token').value.trim();
  await post('check', {}, offered);
  remember(offered);
});

byId('unlock').addEventListener('click', () => {
  if (token) return remember('');
  byId('token').value = '';
  say(byId('token-failure'), '');
  byId('token-dialog').showModal();
});

for (const button of document.querySelectorAll('[data-close]')) {
  button.addEventListener('click', () => button.closest('dialog').close());
}
byId('token-dialog').addEventListener('close', () => {
  byId('token').value = '';
});
