//! A vector in chunks: growth copies nothing that is there.

use std::ops::{Index, IndexMut};

/// A vector whose entries lie in chunks of [`CHUNK`].
///
/// A push costs O(1) whatever the length, not only amortised, and reserves no more than a chunk;
/// the first chunk grows by doubling, so that a small vector stays small. What holds the chunks
/// doubles, at a few bytes per hundred entries.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chunks<T> {
    /// All but the last are full.
    chunks: Vec<Vec<T>>,
}

/// Entries per chunk.
const CHUNK: usize = 1 << BITS;
const BITS: u32 = 8;

/// The smallest room that a first chunk makes.
const FEW: usize = 4;

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T> Chunks<T> {
    pub(crate) fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub(crate) fn push(&mut self, entry: T) {
        match self.chunks.last_mut().filter(|last| last.len() < CHUNK) {
            Some(last) => {
                let room = CHUNK - last.len();
                if last.len() == last.capacity() {
                    last.reserve_exact(last.len().max(FEW).min(room));
                }
                last.push(entry);
            }
            None => {
                let room = if self.chunks.is_empty() { FEW } else { CHUNK };
                let mut chunk = Vec::with_capacity(room);
                chunk.push(entry);
                self.chunks.push(chunk);
            }
        }
    }

    /// Pushes until there are `len` entries.
    pub(crate) fn grow_to(&mut self, len: usize, mut entry: impl FnMut() -> T) {
        for _ in self.len()..len {
            self.push(entry());
        }
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index >> BITS)?.get(index % CHUNK)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.chunks.get_mut(index >> BITS)?.get_mut(index % CHUNK)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }
}

impl<T> Index<usize> for Chunks<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.chunks[index >> BITS][index % CHUNK]
    }
}

impl<T> IndexMut<usize> for Chunks<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index >> BITS][index % CHUNK]
    }
}

impl<T> FromIterator<T> for Chunks<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut chunks = Self::default();
        entries.into_iter().for_each(|entry| chunks.push(entry));
        chunks
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Chunks};

    fn up_to(len: usize) -> Chunks<usize> {
        (0..len).collect()
    }

    #[test]
    fn entries_are_found_where_they_were_put() {
        let mut chunks = up_to(3 * CHUNK + 7);
        assert_eq!(chunks.len(), 3 * CHUNK + 7);
        for index in [0, 1, CHUNK - 1, CHUNK, 2 * CHUNK + 5, 3 * CHUNK + 6] {
            assert_eq!((chunks[index], chunks.get(index)), (index, Some(&index)));
        }
        for beyond in [3 * CHUNK + 7, 4 * CHUNK, usize::MAX] {
            assert_eq!(chunks.get(beyond), None);
            assert_eq!(chunks.get_mut(beyond), None);
        }
        chunks[CHUNK] = 1;
        *chunks.get_mut(CHUNK + 1).unwrap() = 2;
        assert!(chunks.iter().skip(CHUNK).take(3).eq(&[1, 2, CHUNK + 2]));
        assert_eq!(chunks.iter().count(), chunks.len());
    }

    #[test]
    fn equal_are_those_of_equal_entries_however_they_grew() {
        let grown = up_to(CHUNK + 3);
        let shorter = up_to(CHUNK + 1);
        let mut cloned = shorter.clone();
        assert_eq!(cloned, shorter);
        assert_ne!(cloned, grown);
        let mut next = CHUNK + 1..;
        cloned.grow_to(CHUNK + 3, || next.next().unwrap());
        assert_eq!(cloned, grown);
        cloned.grow_to(1, || 0);
        assert_eq!(cloned, grown);
    }

    #[test]
    fn growth_moves_nothing_and_reserves_one_chunk() {
        let mut chunks = up_to(2 * CHUNK);
        let before: Vec<*const usize> = chunks.iter().map(std::ptr::from_ref).collect();
        for more in 0..5 * CHUNK {
            chunks.push(more);
        }
        let after = chunks.iter().map(std::ptr::from_ref);
        assert!(after.zip(before).all(|(now, before)| now == before));
        let reserved = |chunks: &Chunks<usize>| {
            chunks.chunks.iter().map(Vec::capacity).sum::<usize>() - chunks.len()
        };
        assert_eq!(reserved(&chunks), 0);
        let original = up_to(CHUNK + 200);
        let mut cloned = original.clone();
        for len in CHUNK + 201..2 * CHUNK + 10 {
            cloned.push(len);
            assert!(reserved(&cloned) < CHUNK, "{} before", original.len());
        }
        assert!(reserved(&up_to(5)) < 8, "a small vector stays small");
    }
}
