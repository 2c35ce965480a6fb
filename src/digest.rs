//! The digest of a state.

mod canonical;

use std::fmt;

use serde::Serialize;

use self::canonical::Canonical;

/// A SHA-256, of which people see the hexadecimal digits: see
/// [`Scheduler::digest`](crate::Scheduler::digest).
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of a value's canonical form.
    pub(crate) fn of(value: &impl Serialize) -> Self {
        let mut canonical = Canonical::default();
        value.serialize(&mut canonical).expect("the state is made of plain values");
        Self(canonical.finish())
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::refusal::Reason;

    #[derive(Serialize)]
    struct Sample {
        count: u32,
        name: &'static str,
        none: Option<u8>,
        some: Option<f64>,
        flag: bool,
        kind: Reason,
        pairs: Vec<(u64, u8)>,
        map: BTreeMap<&'static str, i32>,
    }

    /// The expected digest was computed from the description in `canonical`, by other means.
    #[test]
    fn the_canonical_form_is_as_described() {
        let sample = Sample {
            count: 7,
            name: "ab",
            none: None,
            some: Some(2.5),
            flag: true,
            kind: Reason::Throttled,
            pairs: vec![(1, 2)],
            map: BTreeMap::from([("k", -1)]),
        };
        let expected = "7f7e942ed425843900ee6324db4c4497b29d5e09ade81e14efbc6848d74ddda1";
        assert_eq!(Digest::of(&sample).to_string(), expected);
    }

    #[test]
    fn borders_of_lists_and_texts_count() {
        let distinct = [
            Digest::of(&(vec!["a"], vec!["b", "c"])),
            Digest::of(&(vec!["a", "b"], vec!["c"])),
            Digest::of(&(vec!["ab"], vec!["c"])),
            Digest::of(&(vec![Some("a")], vec![Some("b"), None])),
        ];
        for (index, digest) in distinct.iter().enumerate() {
            assert!(!distinct[index + 1..].contains(digest));
        }
    }
}
