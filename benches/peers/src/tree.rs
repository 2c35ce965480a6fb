//! An implicit tree, 16 wide, of (smallest key, how many are equal to it).

const WIDTH: usize = 16;

/// Keys in a fixed order. A change of one and the k-th of the smallest cost O(log keys).
pub(crate) struct Tree {
    /// The keys, and above them one node per sixteen, up to a single one.
    levels: Vec<Level>,
}

struct Level {
    keys: Vec<u64>,
    tied: Vec<u32>,
}

impl Level {
    fn of(keys: Vec<u64>) -> Self {
        let tied = vec![1; keys.len()];
        let mut level = Self { keys, tied };
        level.pad();
        level
    }

    fn pad(&mut self) {
        let len = self.keys.len().next_multiple_of(WIDTH);
        self.keys.resize(len, u64::MAX);
        self.tied.resize(len, 0);
    }

    /// The node above the sixteen at `parent`.
    fn summary(&self, parent: usize) -> (u64, u32) {
        let at = parent * WIDTH;
        let keys: &[u64; WIDTH] = self.keys[at..at + WIDTH].try_into().unwrap();
        let tied: &[u32; WIDTH] = self.tied[at..at + WIDTH].try_into().unwrap();
        let best = keys.iter().copied().fold(u64::MAX, u64::min);
        let equal = keys.iter().zip(tied).map(|(&key, &tied)| if key == best { tied } else { 0 });
        (best, equal.sum())
    }
}

impl Tree {
    pub(crate) fn new(keys: Vec<u64>) -> Self {
        let mut levels = vec![Level::of(keys)];
        while let Some(below) = levels.last().filter(|level| level.keys.len() > 1) {
            let parents = below.keys.len().div_ceil(WIDTH);
            let (keys, tied) = (0..parents).map(|parent| below.summary(parent)).unzip();
            let mut level = Level { keys, tied };
            if parents > 1 {
                level.pad();
            }
            levels.push(level);
        }
        Self { levels }
    }

    /// How many keys are equal to the smallest.
    pub(crate) fn tied(&self) -> u32 {
        self.levels.last().unwrap().tied[0]
    }

    /// The place of the `k`-th of the smallest keys.
    pub(crate) fn kth_tied(&self, mut k: u32) -> usize {
        let (root, below) = self.levels.split_last().unwrap();
        let (best, mut node) = (root.keys[0], 0);
        for level in below.iter().rev() {
            let at = node * WIDTH;
            let mut children = level.keys[at..at + WIDTH].iter().zip(&level.tied[at..at + WIDTH]);
            let within = children.position(|(&key, &tied)| {
                let held = if key == best { tied } else { 0 };
                let is_here = k < held;
                k -= if is_here { 0 } else { held };
                is_here
            });
            node = at + within.unwrap();
        }
        node
    }

    pub(crate) fn set(&mut self, mut index: usize, key: u64) {
        self.levels[0].keys[index] = key;
        for level in 1..self.levels.len() {
            index /= WIDTH;
            let (key, tied) = self.levels[level - 1].summary(index);
            self.levels[level].keys[index] = key;
            self.levels[level].tied[index] = tied;
        }
    }
}
