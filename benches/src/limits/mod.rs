//! What the machine itself can do: the physical limits beside which figures are quoted.

use crate::Failure;
use crate::role::Member;

pub mod line;
pub mod memcpy;
pub mod ring;

/// Runs a role of this module; `None` when the name is not one of them.
pub fn play(name: &str, member: &Member) -> Option<Result<(), Failure>> {
    match name {
        line::ROLE => Some(line::play(member)),
        ring::ROLE => Some(ring::play(member)),
        _ => None,
    }
}
