//! `memcpy`: what one copy of a payload would cost, out of caches when it is large.

use std::hint::black_box;
use std::time::Instant;

use crate::Failure;
use crate::blocks::Side;

/// Copies `len` bytes from one private buffer to another.
#[derive(Debug)]
pub struct Memcpy {
    name: String,
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Memcpy {
    /// Buffers of `len` bytes, touched once so that their pages exist.
    #[must_use]
    pub fn new(name: &str, len: usize) -> Self {
        Self { name: name.to_owned(), from: vec![1; len], to: vec![2; len] }
    }
}

impl Side for Memcpy {
    fn name(&self) -> &str {
        &self.name
    }

    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        let started = Instant::now();
        for _ in 0..rounds {
            black_box(&mut self.to).copy_from_slice(black_box(&self.from));
        }
        Ok(crate::ns_each(started.elapsed(), rounds))
    }
}

#[cfg(test)]
mod tests {
    use super::Memcpy;
    use crate::blocks::Side;

    #[test]
    fn a_copy_takes_time() {
        assert!(Memcpy::new("copy", 4096).block(100).unwrap() > 0.0);
    }
}
