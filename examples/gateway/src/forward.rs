//! From a client's request to an answer: lease an account, ask its upstream, and try another one
//! as long as nothing has reached the client.

mod attempt;

use account_pool::http::Cause;
use account_pool::{AccountId, Millis, Unavailable};
use axum::response::Response;

use self::attempt::{Failure, ask};
use crate::api::Api;
use crate::dial::Dialer;
use crate::fault::Fault;
use crate::gateway::Live;
use crate::intake::Asked;
use crate::upstream::GatewayPool;

/// What a request needs of the gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Means<'a> {
    pub(crate) pool: &'a GatewayPool,
    pub(crate) dialer: &'a Dialer,
    pub(crate) live: &'a Live,
}

/// Answers a request. Dropping the future, as when the client leaves, ends whatever is under way:
/// the lease as cancelled, the upstream's connection at once.
pub(crate) async fn forward(means: Means<'_>, asked: &Asked) -> Result<Response, Fault> {
    let routing = &means.live.settings.routing;
    let clock = means.pool.clock();
    let deadline = account_pool::Clock::now(clock).plus(Millis::new(routing.max_wait_ms));
    let mut tried: Vec<AccountId> = Vec::new();
    let mut last: Option<Failure> = None;
    for attempt in 1..=routing.max_attempts {
        let request = asked.request().exclude(&tried);
        let lease = match means.pool.acquire_by(&request, deadline).await {
            Ok(lease) => lease,
            Err(refusal) => return refused(means, asked, &refusal, last),
        };
        let account = lease.account().clone();
        tracing::debug!(%account, attempt, path = lease.path().as_str(), "leased");
        let failure = match ask(means, asked, lease).await {
            Ok(response) => return Ok(response),
            Err(failure) => failure,
        };
        let Failure { cause, outcome, rule, .. } = &failure;
        tracing::info!(%account, attempt, ?outcome, ?cause, rule, "failed");
        if !failure.cause.may_succeed_elsewhere() {
            return failure.answer();
        }
        // An account under a cooldown is kept away by the pool, for as long as it lasts and no
        // longer; waiting may well lead back to it.
        if !is_cooling(failure.cause) {
            tried.push(account);
        }
        last = Some(failure);
    }
    match last {
        Some(failure) => failure.answer(),
        None => Err(Fault::unavailable("no attempt was allowed")),
    }
}

fn is_cooling(cause: Cause) -> bool {
    matches!(cause, Cause::Throttle(_) | Cause::Quota(_) | Cause::Overload(_))
}

/// What to answer when the pool has nobody for the next attempt.
fn refused(
    means: Means<'_>,
    asked: &Asked,
    refusal: &Unavailable,
    last: Option<Failure>,
) -> Result<Response, Fault> {
    tracing::info!(%refusal, "refused");
    match last {
        // The pool knows better than one upstream when an account will be free.
        Some(failure) if !is_cooling(failure.cause) => failure.answer(),
        _ => Err(explain(means, asked, refusal)),
    }
}

/// A refusal, or the better reason that this API or model is not served here at all.
fn explain(means: Means<'_>, asked: &Asked, refusal: &Unavailable) -> Fault {
    let accounts = &means.live.settings.accounts;
    let api = asked.api;
    if !accounts.iter().any(|account| account.api() == api) {
        return not_found(api, "no account of this gateway speaks this API");
    }
    let serves = |model: &str| {
        accounts.iter().filter(|account| account.api() == api).any(|account| account.serves(model))
    };
    match &asked.model {
        Some(model) if refusal.is_final() && !serves(model) => {
            not_found(api, "no account of this gateway serves this model")
        }
        _ => Fault::refused(refusal),
    }
}

fn not_found(api: Api, message: &str) -> Fault {
    let code = if api == Api::OpenAi { "model_not_found" } else { "not_found" };
    Fault::new(http::StatusCode::NOT_FOUND, code, message)
}
