//! Another order of preference.

use super::Index;
use super::kind::plain;
use crate::select::query::View;
use crate::select::rank::Translation;

impl Index {
    /// Makes of what was known under another order of preference what is known under the view's:
    /// all of it but the keys stays as it is. Under the former order the index must have
    /// [learnt](Self::learn) all that there was to learn at the view's time; it is not current
    /// before the next refresh.
    pub(crate) fn translate(&mut self, translation: &Translation, view: &View<'_>) {
        self.is_behind = true;
        // What is settled of an account is weighed anew when it is next looked at: that spares
        // reading as much again.
        self.order_number = self.order_number.wrapping_add(1);
        let plain = plain(view.config);
        let rules = self.rules();
        for group in &mut self.groups {
            group.ranked.change_all(rules, |ranked, place| {
                ranked.key = translation.key(ranked.key, place, &plain, view);
            });
            group.asleep.change_all(|sleeper, place| {
                sleeper.ranked.key = translation.key(sleeper.ranked.key, place, &plain, view);
            });
        }
    }
}
