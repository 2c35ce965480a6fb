//! One line of the rule table.

use super::answer::Answer;
use super::cause::Cause;

/// One line of the rule table: which answers it is about, and whose fault they are.
///
/// A rule holds if the status is one of its statuses (any from 400 on if it names none) and the
/// body has one of its codes, or a message that starts with or contains one of its texts (any body
/// if it names neither). Codes and texts are written in lower case and compared without regard to
/// case.
///
/// Codes are read from the places where upstreams put them (`error.code`, `error.type`,
/// `error.status`, `error.reason`, and the reasons in `error.details`), never from free text.
/// Messages quote what clients wrote, so prefer [`Rule::starts`] to [`Rule::contains`] wherever the
/// verdict harms the account: otherwise a client could have it blocked by asking for a model of
/// that name.
///
/// ```
/// use account_pool::http::{Cause, Rule};
///
/// const RULES: &[Rule<'static>] = &[
///     Rule::new("relay.no-channel", Cause::Model).statuses(&[503]).codes(&["no_channel"]),
///     Rule::new("relay.overdue", Cause::Quota(account_pool::Scope::Account))
///         .statuses(&[400])
///         .starts(&["overdue payment"]),
/// ];
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Rule<'a> {
    pub(super) name: &'a str,
    pub(super) cause: Cause,
    statuses: &'a [u16],
    codes: &'a [&'a str],
    starts: &'a [&'a str],
    contains: &'a [&'a str],
}

impl<'a> Rule<'a> {
    /// A rule about every error.
    pub const fn new(name: &'a str, cause: Cause) -> Self {
        Self { name, cause, statuses: &[], codes: &[], starts: &[], contains: &[] }
    }

    /// Limits the rule to these statuses.
    pub const fn statuses(mut self, statuses: &'a [u16]) -> Self {
        self.statuses = statuses;
        self
    }

    /// Adds codes, one of which suffices.
    pub const fn codes(mut self, codes: &'a [&'a str]) -> Self {
        self.codes = codes;
        self
    }

    /// Adds beginnings of the message, one of which suffices.
    pub const fn starts(mut self, texts: &'a [&'a str]) -> Self {
        self.starts = texts;
        self
    }

    /// Adds parts of the message, one of which suffices.
    pub const fn contains(mut self, texts: &'a [&'a str]) -> Self {
        self.contains = texts;
        self
    }

    pub(super) fn holds(&self, status: u16, answer: &Answer) -> bool {
        if !self.statuses.is_empty() && !self.statuses.contains(&status) {
            return false;
        }
        let lists = [self.codes, self.starts, self.contains];
        lists.iter().all(|list| list.is_empty())
            || self.codes.iter().any(|code| answer.has_code(code))
            || self.starts.iter().any(|text| answer.message.starts_with(text))
            || self.contains.iter().any(|text| answer.message.contains(text))
    }
}
