//! The other processes of a measurement: this binary again, as `/proc/self/exe role NAME FD MEMBER
//! CORE …`, with the measurement's memory inherited as descriptor FD.
//!
//! ```text
//! starter                                     member
//! start: spawn, wait for ready       ──────   pin, set up, ready := 1, sleep on go
//! begin(n): value := n, go += 1      ──────   wakes, runs its half of n rounds, sleeps on go
//! drop: value := 0, go += 1, reap    ──────   ends
//! ```
//! A member dies with its starter (parent-death signal), and a starter that waits for a member that
//! died gets an error after [`PATIENCE`].

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use sys::clock::MonoTime;
use sys::signal::Signal;
use sys::spawn::{Child, Spawn};

use crate::Failure;
use crate::shared::Shared;
use crate::spin::PATIENCE;

/// First argument of a process that plays a role.
pub const KEYWORD: &str = "role";

/// A started member, seen from its starter.
#[derive(Debug)]
pub struct Role {
    shared: Rc<Shared>,
    member: usize,
    child: Child,
}

impl Role {
    /// Starts role `name` as `member` on `core` with further arguments; returns when it is ready.
    ///
    /// # Errors
    /// The process can't be spawned or is not ready in time.
    pub fn start(
        name: &str,
        shared: &Rc<Shared>,
        member: usize,
        core: usize,
        extra: &[String],
    ) -> Result<Self, Failure> {
        Self::start_with(name, shared, member, core, extra, &[])
    }

    /// The same with further descriptors that the member inherits under the same numbers.
    ///
    /// # Errors
    /// As [`Role::start`].
    pub fn start_with(
        name: &str,
        shared: &Rc<Shared>,
        member: usize,
        core: usize,
        extra: &[String],
        inherit: &[BorrowedFd<'_>],
    ) -> Result<Self, Failure> {
        let numbers = [shared.number().to_string(), member.to_string(), core.to_string()];
        let mut args = vec![KEYWORD.to_owned(), name.to_owned()];
        args.extend(numbers);
        args.extend_from_slice(extra);
        let mut fds = vec![shared.as_fd()];
        fds.extend_from_slice(inherit);
        let child = spawn(&args, &fds)?;
        let role = Self { shared: Rc::clone(shared), member, child };
        let ready = &shared.ready(member).word;
        wait_until(ready, 1).map_err(|error| format!("role {name}, member {member}: {error}"))?;
        Ok(role)
    }

    /// Lets the member run its half of `rounds` rounds; returns at once.
    pub fn begin(&self, rounds: u64) {
        let go = self.shared.go(self.member);
        // SYNC: release, pairs with the acquire load in `Member::serve`.
        go.value.store(rounds, Ordering::Relaxed);
        go.word.fetch_add(1, Ordering::Release);
        sys::futex::wake(&go.word, 1);
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        self.begin(0);
        // A member that does not end by itself ends with this process (parent-death signal).
        let _ = self.child.pidfd.wait_end();
    }
}

fn spawn(args: &[String], inherit: &[BorrowedFd<'_>]) -> Result<Child, Failure> {
    Ok(Spawn {
        program: Path::new("/proc/self/exe"),
        args,
        env: &[],
        inherit,
        stdin: None,
        stdout: None,
        stderr: None,
        death_signal: Some(Signal::KILL),
    }
    .spawn()?)
}

/// What a member process knows about its place.
#[derive(Debug)]
pub struct Member {
    /// The measurement's memory.
    pub shared: Shared,
    /// Which member this is.
    pub index: usize,
    /// Arguments after the core.
    pub extra: Vec<String>,
}

impl Member {
    /// Reads `role NAME FD MEMBER CORE …` from the command line and pins the process; `None` when
    /// this process does not play a role.
    ///
    /// # Errors
    /// The arguments are incomplete, or the core or descriptor does not exist.
    pub fn from_env() -> Result<Option<(String, Self)>, Failure> {
        let mut args = std::env::args().skip(1);
        if args.next().as_deref() != Some(KEYWORD) {
            return Ok(None);
        }
        let mut next = |what: &str| args.next().ok_or_else(|| format!("a role needs its {what}"));
        let name = next("name")?;
        let shared = Shared::inherited(next("descriptor")?.parse()?)?;
        let index = next("member number")?.parse()?;
        sys::affinity::pin_current(next("core")?.parse()?)?;
        Ok(Some((name, Self { shared, index, extra: args.collect() })))
    }

    /// Says that it is ready, then runs each block until it is told to end.
    ///
    /// # Errors
    /// The first error of `run`.
    pub fn serve(
        &self,
        mut run: impl FnMut(&Self, u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let ready = &self.shared.ready(self.index).word;
        ready.store(1, Ordering::Release);
        sys::futex::wake(ready, 1);
        let go = self.shared.go(self.index);
        for seen in 0u32.. {
            // SYNC: acquire, pairs with the release in `Role::begin`.
            while go.word.load(Ordering::Acquire) == seen {
                sys::futex::wait(&go.word, seen, None);
            }
            match go.value.load(Ordering::Relaxed) {
                0 => break,
                rounds => run(self, rounds)?,
            }
        }
        Ok(())
    }
}

/// Sleeps until `word` is `wanted`.
///
/// # Errors
/// It did not become so within [`PATIENCE`].
pub fn wait_until(word: &AtomicU32, wanted: u32) -> Result<(), Failure> {
    let found = word.load(Ordering::Acquire);
    if found == wanted {
        return Ok(());
    }
    let patience_ms = u64::try_from(PATIENCE.as_millis())?;
    let deadline = MonoTime::now().add_ms(patience_ms);
    loop {
        let found = word.load(Ordering::Acquire);
        if found == wanted {
            return Ok(());
        }
        if MonoTime::now() >= deadline {
            return Err(format!("waited {PATIENCE:?} for {wanted}, found {found}").into());
        }
        sys::futex::wait(word, found, Some(deadline));
    }
}
