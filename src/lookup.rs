//! Finds entries of a table by their keys, without holding the keys.

use hashbrown::HashTable;

/// The indices of entries that lie elsewhere, by the hashes of their keys.
///
/// It holds eight bytes per entry, and when it grows it looks at no key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookup {
    table: HashTable<Found>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    hash: u32,
    index: u32,
}

impl PartialEq for Lookup {
    /// What is derived from the entries makes no difference between tables.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Lookup {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The index of the entry whose key has this hash and `is` the one.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = folded(hash);
        let found = self.table.find(spread(hash), |it| it.hash == hash && is(it.index));
        found.map(|found| found.index)
    }

    /// Adds an entry under a key that has none.
    pub(crate) fn insert(&mut self, hash: u64, index: u32) {
        let hash = folded(hash);
        self.table.insert_unique(spread(hash), Found { hash, index }, |it| spread(it.hash));
    }

    /// Takes the entry out whose key has this hash and `is` the one.
    pub(crate) fn remove(&mut self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = folded(hash);
        let found = self.table.find_entry(spread(hash), |it| it.hash == hash && is(it.index));
        found.ok().map(|found| found.remove().0.index)
    }
}

/// Half of the hash, in which all of it counts.
#[expect(clippy::cast_possible_truncation, reason = "the upper half is in the lower one")]
fn folded(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

/// What the table places an entry by: its upper bits depend on the whole hash, too.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::Lookup;

    #[test]
    fn entries_of_one_hash_are_told_apart() {
        let mut lookup = Lookup::default();
        for index in 0..3_000 {
            lookup.insert(u64::from(index % 7) << 31, index);
        }
        assert_eq!(lookup.len(), 3_000);
        assert_eq!(lookup.find(3 << 31, |index| index == 10), Some(10));
        assert_eq!(lookup.find(4 << 31, |index| index == 10), None);
        assert_eq!(lookup.remove(3 << 31, |index| index == 10), Some(10));
        assert_eq!(lookup.remove(3 << 31, |index| index == 10), None);
        assert_eq!(lookup.find(3 << 31, |index| index == 17), Some(17));
        assert_eq!(lookup.len(), 2_999);
    }
}
