//! Which cores a figure uses.

use crate::Failure;

/// The first two cores this process may run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cores {
    /// Where the measuring process itself runs.
    pub near: usize,
    /// Where its peer runs, when the two should not share a core.
    pub far: usize,
}

impl Cores {
    /// Picks the cores and pins this process to the near one.
    ///
    /// # Errors
    /// Fewer than two cores are allowed, or pinning failed.
    pub fn pin() -> Result<Self, Failure> {
        let allowed = sys::affinity::allowed()?;
        let [near, far, ..] = allowed[..] else {
            return Err(format!("two cores are needed, allowed are {allowed:?}").into());
        };
        sys::affinity::pin_current(near)?;
        Ok(Self { near, far })
    }
}
