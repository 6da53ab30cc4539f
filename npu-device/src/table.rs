//! Numbered objects of a device: what an entry of a queue names by number is found here.
//!
//! Entries have a lock each, so cores that look up different objects share no line. Places come in
//! chunks that are made when they are first needed.
//!
//! A number is given again when its object is gone. So that an entry that outlived its object does
//! not take another one for it, entries carry a [`Name`]: the number and how often it was given.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use crate::lock::lock;

const CHUNK: usize = 256;

/// A number and which time it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) id: u32,
    pub(crate) turn: u32,
}

impl Name {
    /// As one word of an entry: the number in its low half.
    pub(crate) fn word(self) -> u64 {
        u64::from(self.turn) << 32 | u64::from(self.id)
    }
}

/// An object, and which time its number was given last.
#[derive(Debug)]
struct Given<T> {
    turn: u32,
    object: Option<Arc<T>>,
}

type Place<T> = RwLock<Given<T>>;
type Chunk<T> = OnceLock<Box<[Place<T>]>>;

/// Objects by number.
#[derive(Debug)]
pub(crate) struct Table<T> {
    chunks: Box<[Chunk<T>]>,
    free: Mutex<Free>,
    capacity: u32,
}

#[derive(Debug, Default)]
struct Free {
    live: usize,
    fresh: u32,
    again: Vec<u32>,
}

impl<T> Table<T> {
    pub(crate) fn new(capacity: u32) -> Self {
        let chunks = (capacity as usize).div_ceil(CHUNK);
        let chunks = (0..chunks).map(|_| OnceLock::new()).collect();
        Self { chunks, free: Mutex::default(), capacity }
    }

    /// Makes an object with its name, unless all numbers are used.
    pub(crate) fn insert(&self, make: impl FnOnce(Name) -> T) -> Option<Arc<T>> {
        let id = {
            let mut free = lock(&self.free);
            let id = match free.again.pop() {
                Some(id) => id,
                None if free.fresh < self.capacity => {
                    free.fresh += 1;
                    free.fresh - 1
                }
                None => return None,
            };
            free.live += 1;
            id
        };
        let mut place = self.place(id)?.write().unwrap_or_else(PoisonError::into_inner);
        // Nobody has the number, so nobody waits for this place meanwhile.
        let object = Arc::new(make(Name { id, turn: place.turn }));
        place.object = Some(object.clone());
        Some(object)
    }

    pub(crate) fn get(&self, id: u32) -> Option<Arc<T>> {
        self.read(id, |given| given.object.clone())
    }

    /// The object of this name, unless it is gone; `word` is a [`Name::word`].
    pub(crate) fn named(&self, word: u64) -> Option<Arc<T>> {
        let [low, high] = [word & 0xFFFF_FFFF, word >> 32];
        let same = |given: &Given<T>| u64::from(given.turn) == high;
        let id = u32::try_from(low).ok()?;
        self.read(id, |given| given.object.clone().filter(|_| same(given)))
    }

    fn read(&self, id: u32, read: impl FnOnce(&Given<T>) -> Option<Arc<T>>) -> Option<Arc<T>> {
        let chunk = self.chunks.get(id as usize / CHUNK)?.get()?;
        read(&chunk[id as usize % CHUNK].read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Those that there are now.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let fresh = lock(&self.free).fresh;
        (0..fresh).filter_map(|id| self.get(id)).collect()
    }

    /// How many there are.
    pub(crate) fn live(&self) -> usize {
        lock(&self.free).live
    }

    /// Takes an object out; its number is free again.
    pub(crate) fn remove(&self, id: u32) -> Option<Arc<T>> {
        self.take(id, |_| true)
    }

    /// The same, unless the number is another object's by now; `word` is a [`Name::word`].
    pub(crate) fn remove_named(&self, word: u64) -> Option<Arc<T>> {
        let id = u32::try_from(word & 0xFFFF_FFFF).ok()?;
        self.take(id, |turn| u64::from(turn) == word >> 32)
    }

    fn take(&self, id: u32, is: impl FnOnce(u32) -> bool) -> Option<Arc<T>> {
        let mut place = self.place(id)?.write().unwrap_or_else(PoisonError::into_inner);
        if !is(place.turn) {
            return None;
        }
        let object = place.object.take()?;
        place.turn = place.turn.wrapping_add(1);
        drop(place);
        let mut free = lock(&self.free);
        free.again.push(id);
        free.live -= 1;
        Some(object)
    }

    fn place(&self, id: u32) -> Option<&Place<T>> {
        let chunk = self.chunks.get(id as usize / CHUNK)?;
        let place = |_| RwLock::new(Given { turn: 0, object: None });
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(place).collect());
        chunk.get(id as usize % CHUNK)
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn numbers_end_and_come_again_under_another_name() {
        let table = Table::new(300);
        for expected in 0..300 {
            assert_eq!(table.insert(|name| name).unwrap().id, expected);
        }
        assert!(table.insert(|name| name).is_none());
        let old = table.remove(299).unwrap();
        assert!(
            table.remove(299).is_none() && table.get(299).is_none() && table.get(900).is_none()
        );
        let new = table.insert(|name| name).unwrap();
        assert_eq!((new.id, old.id), (299, 299));
        assert!(table.named(old.word()).is_none());
        assert_eq!(table.named(new.word()), Some(new));
        assert!(table.remove_named(old.word()).is_none(), "it is another one's");
        assert!(table.named(u64::MAX).is_none() && table.named(900).is_none());
    }
}
