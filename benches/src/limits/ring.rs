//! The bare futex ring: n processes asleep, a message goes host → p1 → … → pn → host.
//!
//! Each process sleeps on a futex word of its own; a hop is one store, one wake and the sleeper's
//! way back to user space. With n = 1 it is the raw hand-over between two processes. Time per hop
//! is the round's time over n + 1. Nobody spins.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::Failure;
use crate::blocks::Side;
use crate::role::{Member, Role};
use crate::shared::{FREE, MEMBERS, Shared};

/// Role of one process of the ring.
pub const ROLE: &str = "ring-member";

/// Rounds before the clock starts, in each block.
const WARM: u64 = 16;

/// The host's end of the ring.
#[derive(Debug)]
pub struct FutexRing {
    name: String,
    shared: Rc<Shared>,
    members: Vec<Role>,
}

impl FutexRing {
    /// Starts one process per entry of `cores`, each pinned to that core.
    ///
    /// # Errors
    /// There are no members or too many, or one can't be started.
    pub fn start(name: &str, cores: &[usize]) -> Result<Self, Failure> {
        if cores.is_empty() || cores.len() >= MEMBERS {
            return Err(format!("a ring of {} processes, 1 to {MEMBERS} work", cores.len()).into());
        }
        let shared = Rc::new(Shared::create()?);
        let mut members = Vec::new();
        for (member, core) in cores.iter().enumerate() {
            let next = if member + 1 == cores.len() { host_inbox() } else { FREE + member + 1 };
            members.push(Role::start(ROLE, &shared, member, *core, &[next.to_string()])?);
        }
        Ok(Self { name: name.to_owned(), shared, members })
    }
}

impl Side for FutexRing {
    fn name(&self) -> &str {
        &self.name
    }

    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        let total = u32::try_from(rounds + WARM)?;
        let host = &self.shared.line(host_inbox()).word;
        host.store(0, Ordering::Relaxed);
        for (member, role) in self.members.iter().enumerate() {
            self.shared.line(FREE + member).word.store(0, Ordering::Relaxed);
            role.begin(u64::from(total));
        }
        let first = &self.shared.line(FREE).word;
        let mut started = Instant::now();
        for message in 1..=total {
            if u64::from(message) == WARM + 1 {
                started = Instant::now();
            }
            pass(first, message);
            receive(host, message);
        }
        Ok(crate::ns_each(started.elapsed(), rounds * (self.members.len() as u64 + 1)))
    }
}

/// The line on which the host sleeps; member m sleeps on `FREE + m`.
const fn host_inbox() -> usize {
    FREE + MEMBERS
}

/// Puts a message into an inbox and wakes its owner.
fn pass(inbox: &AtomicU32, message: u32) {
    // SYNC: release, pairs with the acquire load in `receive`.
    inbox.store(message, Ordering::Release);
    sys::futex::wake(inbox, 1);
}

/// Sleeps until a message is in the inbox. No deadline: reading the clock and arming a timer would
/// make the limit slower than it is.
fn receive(inbox: &AtomicU32, message: u32) {
    loop {
        let found = inbox.load(Ordering::Acquire);
        if found == message {
            return;
        }
        sys::futex::wait(inbox, found, None);
    }
}

/// A process of the ring: passes each message on.
///
/// # Errors
/// Its argument is no line.
pub fn play(member: &Member) -> Result<(), Failure> {
    let next: usize = member.extra.first().ok_or("a ring member needs its next line")?.parse()?;
    member.serve(|member, rounds| {
        let inbox = &member.shared.line(FREE + member.index).word;
        let next = &member.shared.line(next).word;
        for message in 1..=u32::try_from(rounds)? {
            receive(inbox, message);
            pass(next, message);
        }
        Ok(())
    })
}
