//! Which accounts may have changed.

/// The places whose account may have changed since somebody asked, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    places: Vec<u32>,
    /// By place.
    marks: Vec<Touch>,
    /// Whether all were touched at once.
    all: bool,
    /// Whether an account has come or gone.
    moved: bool,
}

/// What about an account may have changed.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Touch {
    /// Nothing.
    #[default]
    None,
    /// What the start and the end of a request change while the breaker rests: its load and its
    /// windows, as far as an answer depends on it.
    Load,
    /// Anything that is known of it.
    All,
    /// Which account it is: one has come or gone.
    Seat,
}

impl PartialEq for Touched {
    /// What is derived from the accounts, and when, makes no difference between rosters.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Touched {
    /// Counts a place as touched.
    #[inline(always)]
    pub(crate) fn note(&mut self, place: u32, touch: Touch) {
        self.moved |= touch == Touch::Seat;
        match self.marks.get_mut(place as usize) {
            Some(mark) => {
                if *mark == Touch::None {
                    self.places.push(place);
                }
                *mark = touch.max(*mark);
            }
            None => self.note_new(place, touch),
        }
    }

    #[cold]
    fn note_new(&mut self, place: u32, touch: Touch) {
        self.marks.resize(place as usize + 1, Touch::None);
        // Room for all, so that it is not asked for when all are touched at once.
        self.places.reserve(self.marks.capacity() - self.places.len());
        self.note(place, touch);
    }

    /// Counts these places, which are all there are, as touched.
    pub(crate) fn note_all(&mut self, places: impl IntoIterator<Item = u32>, touch: Touch) {
        self.all = true;
        places.into_iter().for_each(|place| self.note(place, touch));
    }

    /// The places, each once.
    pub(crate) fn places(&self) -> &[u32] {
        &self.places
    }

    /// Whether all were touched at once.
    pub(crate) fn is_all(&self) -> bool {
        self.all
    }

    /// Whether an account has come or gone.
    pub(crate) fn has_moved(&self) -> bool {
        self.moved
    }

    /// The places with what may have changed about their accounts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Touch)> {
        self.places.iter().map(|&place| (place, self.marks[place as usize]))
    }

    /// One of the places, which no longer counts as touched.
    pub(crate) fn pop(&mut self) -> Option<(u32, Touch)> {
        let place = self.places.pop()?;
        Some((place, std::mem::take(&mut self.marks[place as usize])))
    }

    /// Counts no place as touched.
    pub(crate) fn clear(&mut self) {
        for place in self.places.drain(..) {
            self.marks[place as usize] = Touch::None;
        }
        (self.all, self.moved) = (false, false);
    }
}
