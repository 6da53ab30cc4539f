//! Numbered objects of a device: what an entry of a queue names by number is found here.
//!
//! Entries have a lock each, so cores that look up different objects share no line. Places come in
//! chunks that are made when they are first needed.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use crate::lock::lock;

const CHUNK: usize = 256;

type Place<T> = RwLock<Option<Arc<T>>>;
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

    /// Makes an object with its number, unless all numbers are used.
    pub(crate) fn insert(&self, make: impl FnOnce(u32) -> T) -> Option<Arc<T>> {
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
        let object = Arc::new(make(id));
        *self.place(id)?.write().unwrap_or_else(PoisonError::into_inner) = Some(object.clone());
        Some(object)
    }

    pub(crate) fn get(&self, id: u32) -> Option<Arc<T>> {
        let chunk = self.chunks.get(id as usize / CHUNK)?.get()?;
        chunk[id as usize % CHUNK].read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many there are.
    pub(crate) fn live(&self) -> usize {
        lock(&self.free).live
    }

    /// Takes an object out; its number is free again.
    pub(crate) fn remove(&self, id: u32) -> Option<Arc<T>> {
        let mut place = self.place(id)?.write().unwrap_or_else(PoisonError::into_inner);
        let object = place.take()?;
        drop(place);
        let mut free = lock(&self.free);
        free.again.push(id);
        free.live -= 1;
        Some(object)
    }

    fn place(&self, id: u32) -> Option<&Place<T>> {
        let chunk = self.chunks.get(id as usize / CHUNK)?;
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| RwLock::new(None)).collect());
        chunk.get(id as usize % CHUNK)
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn numbers_end_and_come_again() {
        let table = Table::new(300);
        for expected in 0..300 {
            assert_eq!(*table.insert(|id| id).unwrap(), expected);
        }
        assert!(table.insert(|id| id).is_none());
        assert_eq!(*table.remove(299).unwrap(), 299);
        assert!(
            table.remove(299).is_none() && table.get(299).is_none() && table.get(900).is_none()
        );
        assert_eq!(*table.insert(|id| id).unwrap(), 299);
    }
}
