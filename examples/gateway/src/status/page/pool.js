// What is known of the pool.

const pool = {
  summary: null,
  accounts: new Map(),
  events: new Map(),
  newEvents: false,
};
