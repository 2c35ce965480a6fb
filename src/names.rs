//! Models and selectors, interned: accounts, cooldowns and bindings hold small numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use hashbrown::HashMap;

/// An interned name. Models and selectors share the numbering, never a meaning.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct NameId(NonZeroU32);

/// A request's model or selector.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Named {
    /// The request names none.
    #[default]
    Absent,
    /// A name that no account, cooldown, lease or binding knows.
    Unknown,
    Known(NameId),
}

impl Named {
    pub(crate) fn id(self) -> Option<NameId> {
        match self {
            Self::Known(id) => Some(id),
            Self::Absent | Self::Unknown => None,
        }
    }
}

/// The names in use. Names that clients make up are forgotten again once nothing refers to them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Names {
    /// Hashed by foldhash: clients choose the names, but not the seed, which is random.
    ids: HashMap<Arc<str>, NameId>,
    names: Vec<Option<Arc<str>>>,
    vacant: Vec<NameId>,
    sweep_at: usize,
    recent: Recent,
    /// Other names of models.
    aliases: BTreeMap<String, String>,
    /// Canonical names of models that draw on no quota.
    unmetered: BTreeSet<String>,
}

/// The model of the last selection: requests mostly ask for the same few, and comparing one name
/// costs half of hashing it.
#[derive(Clone, Copy, Debug, Default)]
struct Recent(Option<NameId>);

impl PartialEq for Recent {
    /// What is looked at first makes no difference between schedulers.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Below this many names nothing is swept.
const SWEEP_FLOOR: usize = 1_024;

impl Names {
    /// Replaces the aliases and the unmetered models, trimmed like a request's names; names
    /// declared before keep what they resolved to.
    pub(crate) fn set_models(
        &mut self,
        aliases: &BTreeMap<String, String>,
        unmetered: &BTreeSet<String>,
    ) {
        let trimmed = |(alias, name): (&String, &String)| (alias.trim().into(), name.trim().into());
        self.aliases = aliases.iter().map(trimmed).collect();
        let canonical = |model: &String| self.canonical(model.trim()).to_owned();
        self.unmetered = unmetered.iter().map(canonical).collect();
    }

    /// Whether a model, by its canonical name, draws on an account's quota.
    pub(crate) fn is_metered(&self, model: &str) -> bool {
        !self.unmetered.contains(model)
    }

    /// The canonical name of a model.
    pub(crate) fn canonical<'a>(&'a self, model: &'a str) -> &'a str {
        self.aliases.get(model).map_or(model, String::as_str)
    }

    /// A request's model, and whether it draws on an account's quota.
    #[inline]
    pub(crate) fn find_model(&self, model: Option<&str>) -> (Named, bool) {
        let Some(model) = model else {
            return (Named::Absent, true);
        };
        let model = self.canonical(model);
        (self.find(model), self.is_metered(model))
    }

    #[inline]
    pub(crate) fn find_selector(&self, selector: Option<&str>) -> Named {
        selector.map_or(Named::Absent, |selector| self.find(selector))
    }

    fn find(&self, name: &str) -> Named {
        if let Some(id) = self.recent.0
            && self.names[id.place()].as_deref() == Some(name)
        {
            return Named::Known(id);
        }
        self.find_by_hash(name)
    }

    #[inline(never)]
    fn find_by_hash(&self, name: &str) -> Named {
        self.ids.get(name).map_or(Named::Unknown, |&id| Named::Known(id))
    }

    /// Notes the model of a selection.
    #[inline]
    pub(crate) fn note_selected(&mut self, model: Option<NameId>) {
        self.recent = Recent(model);
    }

    /// The number of a model's canonical name, given now if it has none.
    pub(crate) fn intern_model(&mut self, model: &str) -> NameId {
        match self.aliases.get(model).cloned() {
            Some(canonical) => self.intern(&canonical),
            None => self.intern(model),
        }
    }

    /// The number of a selector, given now if it has none.
    pub(crate) fn intern_selector(&mut self, selector: &str) -> NameId {
        self.intern(selector)
    }

    fn intern(&mut self, name: &str) -> NameId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let name: Arc<str> = name.into();
        let id = self.vacant.pop().unwrap_or_else(|| {
            let next = NameId::at(self.names.len()).expect("fewer than 2^32 names are in use");
            self.names.push(None);
            next
        });
        self.names[id.place()] = Some(Arc::clone(&name));
        self.ids.insert(name, id);
        id
    }

    /// The text of a name in use.
    pub(crate) fn text(&self, id: NameId) -> &str {
        self.names[id.place()].as_deref().unwrap_or_default()
    }

    /// Whether so many names were added since the last sweep that another is due.
    pub(crate) fn is_sweep_due(&self) -> bool {
        self.ids.len() >= self.sweep_at.max(SWEEP_FLOOR)
    }

    /// Forgets all names but those in `used`.
    pub(crate) fn sweep(&mut self, used: impl Iterator<Item = NameId>) {
        let mut keep = vec![false; self.names.len()];
        for id in used {
            keep[id.place()] = true;
        }
        for (place, (name, keep)) in self.names.iter_mut().zip(keep).enumerate() {
            if !keep && let Some(name) = name.take() {
                self.ids.remove(&name);
                self.vacant.extend(NameId::at(place));
            }
        }
        self.sweep_at = self.ids.len() * 2;
    }
}

impl NameId {
    /// The number of the name in a place, which is one more.
    fn at(place: usize) -> Option<Self> {
        u32::try_from(place + 1).ok().and_then(NonZeroU32::new).map(Self)
    }

    /// Where its text lies.
    fn place(self) -> usize {
        self.0.get() as usize - 1
    }

    /// Its number, which is not zero.
    #[inline]
    pub(crate) fn number(self) -> u32 {
        self.0.get()
    }

    /// The name of a number; none has the number zero.
    pub(crate) fn numbered(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }
}
