//! The numbers as Prometheus text, version 0.0.4.

use std::fmt::{self, Display, Write};
use std::sync::Arc;
use std::time::Duration;

use account_pool::UsageTotals;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use super::view::{AccountStatus, Condition, Counters, PoolStatus};
use super::{Failed, Host};

/// `GET /metrics`.
pub(super) async fn metrics<T: Send + Sync + 'static>(
    State(host): State<Arc<Host<T>>>,
) -> Result<impl IntoResponse, Failed> {
    let text = host.look(|host| write(&PoolStatus::of(host))).await?;
    let headers = [
        (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, text))
}

fn write(status: &PoolStatus) -> String {
    let mut text = Text::default();
    let summary = &status.summary;
    let mut accounts = text.gauge("accounts", "Accounts by condition.");
    for condition in Condition::ALL {
        let count = summary.conditions.get(&condition).copied().unwrap_or_default();
        accounts.sample(&[("condition", condition.as_str())], count);
    }
    text.gauge("in_flight", "Leases held.").sample(&[], summary.in_flight);
    text.gauge("waiting", "Requests that wait for an account.").sample(&[], summary.waiting);
    text.gauge("drought", "1 when quota runs out everywhere, else 0.")
        .sample(&[], u8::from(summary.drought));
    pool_counters(&mut text, &summary.counters);
    account_gauges(&mut text, status);
    text.0
}

fn pool_counters(text: &mut Text, counters: &Counters) {
    let selected = &counters.selected;
    let mut family = text.counter("selected_total", "Selections by path.");
    for (path, count) in [
        ("sticky", selected.sticky),
        ("warm", selected.warm),
        ("rank", selected.rank),
        ("pin", selected.pin),
        ("degraded", selected.degraded),
        ("acquired", selected.acquired),
    ] {
        family.sample(&[("path", path)], count);
    }
    let sticky = &counters.sticky;
    let mut family = text.counter("lookups_total", "Look-ups of conversations by what they found.");
    for (result, count) in [
        ("hit", sticky.hits),
        ("warm_hit", sticky.warm_hits),
        ("cold_move", sticky.cold_moves),
        ("refusal", sticky.refusals),
        ("wait", sticky.waits),
        ("miss", sticky.misses),
    ] {
        family.sample(&[("result", result)], count);
    }
    let mut family = text.counter("bindings_total", "Bindings made and ended.");
    for (event, count) in
        [("created", sticky.creates), ("expired", sticky.expiries), ("evicted", sticky.evictions)]
    {
        family.sample(&[("event", event)], count);
    }
    text.counter("refused_total", "Requests that were refused.").sample(&[], counters.refused);
    let help = "Refusals in which at least one account was kept away for the reason; one refusal \
                may count for several.";
    let mut family = text.counter("refused_for_total", help);
    for (reason, &count) in &counters.refused_by_reason {
        family.sample(&[("reason", reason)], count);
    }
    text.counter("waits_total", "Answers that advised to wait.").sample(&[], counters.waits);
    text.counter("settled_total", "Leases that ended.").sample(&[], counters.settled);
    let mut family = text.counter("outcomes_total", "Leases that ended while watched, by outcome.");
    for (outcome, &count) in &counters.outcomes {
        family.sample(&[("outcome", outcome)], count);
    }
    text.counter("reaped_total", "Leases freed in silence.").sample(&[], counters.reaped);
    text.counter("refunded_total", "Rate slots given back.").sample(&[], counters.refunded);
    let mut family = text.counter("tokens_total", "Tokens that successes used, by kind.");
    for (kind, count) in tokens(&counters.usage) {
        family.sample(&[("kind", kind)], count);
    }
    text.counter("cost_micros_total", "What successes cost, in millionths of the currency unit.")
        .sample(&[], counters.usage.cost_micros);
}

fn account_gauges(text: &mut Text, status: &PoolStatus) {
    let at = status.summary.at;
    let accounts = &status.accounts;
    let mut family = text.gauge("account_condition", "1 for the account's present condition.");
    for account in accounts {
        let labels = [("account", id(account)), ("condition", account.condition.as_str())];
        family.sample(&labels, 1);
    }
    text.per_account("account_in_flight", "Leases held.", accounts, |it| Some(it.view.in_flight));
    let help = "Leases that may be held at once.";
    text.per_account("account_in_flight_limit", help, accounts, |it| it.max_in_flight);
    let help = "Requests that wait for the account.";
    text.per_account("account_waiting", help, accounts, |it| Some(it.view.waiting));
    let help = "Callers whose first account it is.";
    text.per_account("account_bound", help, accounts, |it| Some(it.view.bound));
    let help = "Free part of the tightest request or token window, 0 to 1.";
    text.per_account("account_headroom_ratio", help, accounts, |it| it.headroom);
    let help = "What is left of the quota in its worst known window, 0 to 1.";
    let left = |it: &AccountStatus| it.view.quota.worst.map(|percent| percent / 100.0);
    text.per_account("account_quota_ratio", help, accounts, left);
    let help = "Time until the last block of the whole account ends, 0 without one.";
    text.per_account("account_blocked_seconds", help, accounts, |it| {
        let millis = it.blocked_until().map_or(0, |until| until.since(at).as_millis());
        Some(Duration::from_millis(millis).as_secs_f64())
    });
    let mut family = text.counter("account_successes_total", "Successes.");
    for account in accounts {
        family.sample(&[("account", id(account))], account.view.usage.successes);
    }
    let help = "Tokens that the account's successes used, by kind.";
    let mut family = text.counter("account_tokens_total", help);
    for account in accounts {
        for (kind, count) in tokens(&account.view.usage) {
            family.sample(&[("account", id(account)), ("kind", kind)], count);
        }
    }
}

fn id(account: &AccountStatus) -> &str {
    account.view.id.as_str()
}

/// Reasoning tokens are part of the output, hence no kind beside it.
fn tokens(usage: &UsageTotals) -> [(&'static str, u64); 4] {
    [
        ("input", usage.input),
        ("output", usage.output),
        ("cache_read", usage.cache_read),
        ("cache_write", usage.cache_write),
    ]
}

/// The text so far.
#[derive(Default)]
struct Text(String);

/// A metric whose head is written, to be followed by its samples.
struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

const PREFIX: &str = "account_pool_";

impl Text {
    fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "counter", help)
    }

    /// A gauge with a sample for each account that has a value.
    fn per_account<V: Display>(
        &mut self,
        name: &'static str,
        help: &str,
        accounts: &[AccountStatus],
        value: impl Fn(&AccountStatus) -> Option<V>,
    ) {
        let mut family = self.gauge(name, help);
        for account in accounts {
            if let Some(value) = value(account) {
                family.sample(&[("account", id(account))], value);
            }
        }
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        let text = &mut self.0;
        text.push_str(&format!("# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}\n"));
        Family { text, name }
    }
}

impl Family<'_> {
    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(&format!("{PREFIX}{}", self.name));
        for (index, (label, value)) in labels.iter().enumerate() {
            let opening = if index == 0 { '{' } else { ',' };
            self.text.push_str(&format!("{opening}{label}=\"{}\"", Escaped(value)));
        }
        let closing = if labels.is_empty() { "" } else { "}" };
        self.text.push_str(&format!("{closing} {value}\n"));
    }
}

/// A label's value with backslashes, quotes and line ends escaped, as the format demands.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|it| match it {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            _ => f.write_char(it),
        })
    }
}
