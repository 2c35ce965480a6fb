//! From HTTP to the pool's words and back: what an upstream's answer means for its account, and
//! which caller a client's request belongs to.
//!
//! - [`classify`] and [`Classifier`] turn an answer into an [`Outcome`](crate::Outcome), with the
//!   usage of a success and the announced end of a limit;
//! - [`quota_reading`] and [`usage()`] read quotas from headers and usage from bodies;
//! - [`BodyReader`] does so for a body that streams by, in bounded memory;
//! - [`CallerRules`] finds the caller of a client's request, and says whether to bind it.
//!
//! Everything is a pure function of its arguments: time is passed in, nothing is sent or kept, no
//! input panics, and nothing that may hold a secret is shown by `Debug`. Instants are
//! milliseconds since the Unix epoch, as those of [`SystemClock`](crate::SystemClock).
//!
//! ```
//! use account_pool::http::{CallerRules, Classifier, ClientRequest, Provider, Response};
//! use account_pool::{Account, Clock, Config, Pool, Request};
//! use http::{HeaderMap, HeaderValue};
//!
//! let pool = Pool::<()>::new(Config::default()).unwrap();
//! pool.add(Account::new("acct-1"), ()).unwrap();
//!
//! let mut headers = HeaderMap::new();
//! headers.insert("authorization", HeaderValue::from_static("Bearer client-secret"));
//! let client = ClientRequest::new(&headers).body(br#"{"model": "m", "user": "42"}"#);
//! let caller = CallerRules::new().read(&client);
//!
//! let request = Request::new().model("m");
//! let request = caller.as_ref().map_or(request, |caller| caller.apply(request));
//! let lease = pool.select(&request).unwrap();
//!
//! // The upstream answers.
//! let answer = http::Response::builder().status(200).body(r#"{"usage": {"prompt_tokens": 9}}"#);
//! let answer = answer.unwrap();
//! let now = pool.clock().now();
//! let verdict = Classifier::new(Provider::OpenAi).classify(&Response::from(&answer), now);
//! lease.settle(verdict.outcome);
//! ```
//!
//! # Whose fault it is
//!
//! The first rule that holds decides: the host's own ([`Classifier::rules`]), then spent windows in
//! the headers, then these.
//!
//! | answer | cause |
//! | --- | --- |
//! | 2xx; with an error in the body, what its code or status stands for | served |
//! | 2xx, 403 or 404 with a web page; 3xx; 407; 511; a refused region | something on the way |
//! | 400, 404, 405, 413, 415, 422 and the like | the request |
//! | unknown model, model not entitled, request larger than the model's limit | the model: neutral |
//! | 401, 403 | credential refused, perhaps for now |
//! | `invalid_api_key`, `token_invalidated`, `API_KEY_INVALID`, "OAuth token has been revoked" | credential gone |
//! | `account_deactivated`, `CONSUMER_SUSPENDED`, "This organization has been disabled" | ban |
//! | 402, `insufficient_quota`, `usage_limit_reached`, "Your credit balance is too low" | account's quota |
//! | 429 with a rejected five-hour or seven-day window, or a Codex window at 100 % | account's quota |
//! | 429 with a rejected window of a model family; a quota per day | model's quota |
//! | 429 of OpenAI, Anthropic, Google | model's throttle |
//! | 429 of others | account's throttle |
//! | 502, 503, 520–523, 529, 530; any status with a code or message of overload, 400 too | model's overload |
//! | 408, 504, 524 | time-out |
//! | 500, other 5xx | provider failed |
//! | other 4xx | unknown: neutral |
//!
//! A throttle announced for an hour or more counts as a quota, since it will not pass while the
//! pool tries again every few minutes.
//!
//! Clients can have their own words quoted in an error message. Verdicts that harm the account
//! therefore rest on codes in their places and on the beginnings of messages alone.
//!
//! # When it ends
//!
//! Of several announcements the first of these that can be read counts:
//!
//! 1. for a quota, the renewal of what is spent: the latest among the spent windows in the headers
//!    (`anthropic-ratelimit-unified-*-reset`, `x-codex-*-reset-at`), then `quotaResetTimeStamp`,
//!    `quotaResetDelay`, `resets_at`, `resets_in_seconds`, "regain access on" in the body;
//! 2. `retry-after-ms`;
//! 3. `retry-after`: seconds, a date, or a span;
//! 4. Google's `retryDelay`;
//! 5. "try again in 20s", "resets in 3h0m0s" and the like in the message;
//! 6. the latest renewal (`x-ratelimit-reset-*`, `anthropic-ratelimit-*-reset`) among limits of
//!    which nothing remains.
//!
//! A Google quota per day ends at the next midnight in California unless the body tells its
//! renewal, because the `retryDelay` beside it is that of the minute. Of a header sent several
//! times the longest value counts. A `retry-after` date is measured from the answer's `date`. One
//! that has passed counts as no delay at all; other instants that have passed, negative and
//! malformed values, and announcements more than 40 days ahead are passed over. Bare numbers from
//! 10⁹ on are seconds, from 10¹² on milliseconds since the Unix epoch.

mod answer;
mod body;
mod caller;
mod cause;
mod classifier;
mod json;
mod parse;
mod quota;
mod reset;
mod response;
mod rule;
mod table;
mod usage;
mod windows;

pub use body::BodyReader;
pub use caller::{CallerKey, CallerRules, CallerSource, ClientRequest};
pub use cause::{Cause, Verdict};
pub use classifier::{Classifier, classify};
pub use quota::quota_reading;
pub use response::{Provider, Response};
pub use rule::Rule;
pub use usage::usage;
