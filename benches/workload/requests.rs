//! The requests of a workload, in turn.

use account_pool::{AccountId, Affinity, Caller, Request};

use super::setup::{id, spread};
use super::{CONVERSATIONS, MODELS, NEW_CONVERSATIONS, Workload};

/// How a host gives the callers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Spelling {
    /// Hashed once per conversation.
    Hashed,
    /// As text, hashed with each request.
    Text,
}

/// The requests of a workload, in turn, without end.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    workload: Workload,
    spelling: Spelling,
    callers: Vec<(String, Caller)>,
    models: Vec<String>,
    excluded: Vec<AccountId>,
    next: usize,
}

impl Requests {
    pub(crate) fn new(workload: Workload, spelling: Spelling, accounts: usize) -> Self {
        let callers = match workload {
            Workload::Sharded | Workload::Tied => (4 * accounts).max(4_096),
            Workload::Bound => CONVERSATIONS,
            Workload::New => NEW_CONVERSATIONS,
            _ => 0,
        };
        let excluded = [0, accounts / 2, accounts - 1].map(|index| AccountId::from(id(index)));
        let called = if workload == Workload::New { newcomer } else { caller };
        Self {
            workload,
            spelling,
            callers: (0..callers).map(called).collect(),
            models: (0..MODELS).map(model).collect(),
            excluded: excluded.into(),
            next: 0,
        }
    }

    pub(crate) fn draw(&mut self) -> Request<'_> {
        self.next += 1;
        let request = Request::new().model("opus");
        match self.workload {
            Workload::Excluded => request.exclude(&self.excluded),
            Workload::Models => request.model(&self.models[self.next % MODELS]),
            Workload::Bound | Workload::New => self.called(request),
            Workload::Sharded | Workload::Tied => self.called(request).affinity(Affinity::Ignore),
            _ => request,
        }
    }

    fn called<'r>(&self, request: Request<'r>) -> Request<'r> {
        let (key, digested) = &self.callers[self.next % self.callers.len()];
        match self.spelling {
            Spelling::Hashed => request.digested(*digested),
            Spelling::Text => request.caller(key),
        }
    }
}

/// A caller's key, and the same hashed. Fifty callers share a tenant.
pub(crate) fn caller(number: usize) -> (String, Caller) {
    let key = format!("api:{}:user:{number}", number / 50);
    let digested = Caller::new(&key).unwrap();
    (key, digested)
}

/// The same, one of two hundred tenants, as chance would have it.
pub(crate) fn newcomer(number: usize) -> (String, Caller) {
    let key = format!("api:{}:user:{number}", spread(number) % 200);
    let digested = Caller::new(&key).unwrap();
    (key, digested)
}

/// A model's name.
pub(crate) fn model(number: usize) -> String {
    format!("model-{:02}", number % MODELS)
}
