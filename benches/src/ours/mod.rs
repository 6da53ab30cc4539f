//! Our own side of the comparisons, on the API that executors use.

use crate::Failure;
use crate::role::Member;

pub mod end;
pub mod group;
pub mod hop;
pub mod queue;

/// Runs a role of this module; `None` when the name is not one of them.
pub fn play(name: &str, member: &Member) -> Option<Result<(), Failure>> {
    match name {
        hop::ROLE => Some(hop::play(member)),
        _ => None,
    }
}
