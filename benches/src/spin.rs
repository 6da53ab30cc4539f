//! Busy waiting with an end: a dead peer becomes an error, not a hang.

use std::hint::spin_loop;
use std::time::{Duration, Instant};

use crate::Failure;

/// Longest busy wait for a peer.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Spins between two looks at the clock; a look costs about as much as one spin, so this is free.
const SPINS_PER_LOOK: u32 = 1 << 20;

/// Spins until `done` says so.
///
/// # Errors
/// The condition did not come true within [`PATIENCE`].
#[inline]
pub fn spin_until(mut done: impl FnMut() -> bool) -> Result<(), Failure> {
    let mut started = None;
    loop {
        for _ in 0..SPINS_PER_LOOK {
            if done() {
                return Ok(());
            }
            spin_loop();
        }
        if started.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return Err(format!("the peer did not answer within {PATIENCE:?}; did it die?").into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::spin_until;

    #[test]
    fn returns_once_the_condition_holds() {
        let mut left = 5;
        spin_until(|| {
            left -= 1;
            left == 0
        })
        .unwrap();
        assert_eq!(left, 0);
    }
}
