//! What most accounts do not have.

/// A value that is the default one for most accounts, and then takes no room but a pointer's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rare<T>(Option<Box<T>>);

impl<T: Default + PartialEq> Rare<T> {
    pub(crate) fn new(value: T) -> Self {
        Self((value != T::default()).then(|| Box::new(value)))
    }

    /// The value; `None` says that it is the default one.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    /// The value, to be changed where it is; `None` says that it is the default one.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// The value, to be changed. Its room is kept from now on, so that changing it again and
    /// again allocates once.
    pub(crate) fn make(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }

    /// Changes the value, and keeps no room for the default one.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut T)) {
        change(self.make());
        self.0.take_if(|value| **value == T::default());
    }
}

impl<T: Default + PartialEq> PartialEq for Rare<T> {
    /// The default value is equal to itself, with room or without.
    fn eq(&self, other: &Self) -> bool {
        match (self.get(), other.get()) {
            (None, None) => true,
            (Some(one), Some(other)) => one == other,
            (Some(value), None) | (None, Some(value)) => *value == T::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rare;

    #[test]
    fn the_default_value_takes_no_room_until_it_is_made() {
        let mut rare = Rare::new(0);
        assert_eq!(rare.get(), None);
        assert_eq!(*rare.make(), 0);
        assert_eq!(rare.get(), Some(&0));
        rare.change(|_| {});
        assert_eq!(rare.get(), None);
        rare.change(|value| *value = 7);
        assert_eq!((rare.get_mut(), Rare::new(7).get()), (Some(&mut 7), Some(&7)));
    }

    #[test]
    fn equal_are_equal_values_with_room_or_without() {
        let mut made = Rare::new(0);
        made.make();
        assert_eq!(made, Rare::default());
        assert_eq!(Rare::default(), made);
        assert_ne!(made, Rare::new(1));
        assert_ne!(Rare::new(1), Rare::default());
        assert_eq!(Rare::new(1), Rare::new(1));
    }
}
