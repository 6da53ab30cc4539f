//! Threads that run the tasks of a model together.
//!
//! A kernel deals parts of its result out (`deal`): whoever is free takes the next part, the
//! calling thread among them. How a result is computed does not depend on who computes it nor on
//! how it was cut, so every number of threads gives the same bits.
//!
//! ```text
//! caller:  lends a call ─► opens the door, wakes who sleeps ─► calls it, too ─► closes the door,
//!          waits for those within
//! member:  door open and not seen yet? goes in, calls, leaves ─► looks for a while ─► sleeps
//! ```
//! A member that is late finds the door closed: nobody waits for a thread that has not begun.
//! Nothing is allocated by a call; a member that sleeps costs nothing.
#![allow(unsafe_code, reason = "a call is lent to threads that outlive it")]

use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};

use crate::isa;

/// Looks at the door of a member that has nothing to do, before it sleeps: some 50 µs, longer than
/// the small tasks between two large ones, and of a caller that waits for a member.
pub(crate) const LOOKS: u32 = 1 << 11;

/// Least cost of what is dealt out, in floating-point operations of a convolution: some 30 µs.
const WORTH: usize = if cfg!(test) { 1 } else { 2_500_000 };

/// Least cost of a part: some 4 µs.
const PART: usize = if cfg!(test) { 1 } else { 300_000 };

/// Parts for each thread: one that is held up leaves the others to who is not.
const PARTS: usize = 4;

/// In the state: members may come in.
const OPEN: u64 = 1 << 31;
/// In the state: members within.
const WITHIN: u64 = OPEN - 1;
/// In the state: one call.
const CALL: u64 = 1 << 32;

/// See the module.
pub struct Team {
    shared: Arc<Shared>,
    members: Vec<JoinHandle<()>>,
}

struct Shared {
    /// Number of the call in the upper half, [`OPEN`], members within.
    state: AtomicU64,
    /// Somebody calls.
    busy: AtomicBool,
    /// Members that have begun.
    begun: Mutex<usize>,
    news: Condvar,
    /// No call comes any more.
    ended: AtomicBool,
    /// What a member panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Written while the door is closed and nobody is within, by whoever set `busy`.
    call: UnsafeCell<Option<Call>>,
}

struct Call {
    of: *const (dyn Fn() + Sync),
    caller: Thread,
}

// SAFETY: `call` is written by the one thread that has set `busy`, while nobody is within, and read
// by those within; what it points to is `Sync` and outlives them ([`Open`]). The rest is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for Shared {}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Team({})", self.threads())
    }
}

/// No state is half done under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Team {
    /// A team of so many threads with the caller; each other one begins with `begin`. They have
    /// begun when this returns.
    ///
    /// # Errors
    /// The system does not give a thread.
    pub fn new(threads: usize, begin: impl Fn() + Clone + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            begun: Mutex::new(0),
            news: Condvar::new(),
            ended: AtomicBool::new(false),
            panic: Mutex::new(None),
            call: UnsafeCell::new(None),
        });
        let mut team = Self { shared, members: Vec::new() };
        for index in 1..threads {
            let (shared, begin) = (Arc::clone(&team.shared), begin.clone());
            let thread = thread::Builder::new().name(format!("team-{index}"));
            team.members.push(thread.spawn(move || {
                begin();
                *lock(&shared.begun) += 1;
                shared.news.notify_one();
                shared.serve();
            })?);
        }
        let mut begun = lock(&team.shared.begun);
        while *begun < team.members.len() {
            begun = team.shared.news.wait(begun).unwrap_or_else(PoisonError::into_inner);
        }
        drop(begun);
        Ok(team)
    }

    /// Its threads with the caller.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.members.len() + 1
    }

    /// Calls `of` on this thread and on each member that comes in meanwhile. Of several callers one
    /// gets the members, and so does the outer one of two calls within each other.
    pub(crate) fn call(&self, of: &(dyn Fn() + Sync)) {
        let Shared { state, busy, call, panic, .. } = &*self.shared;
        // SYNC: acquire, pairs with the release in `Open::drop`: the caller before is done.
        if self.members.is_empty() || busy.swap(true, Ordering::Acquire) {
            return of();
        }
        // SAFETY: only the lifetime changes; `Open` ends each use before this function returns.
        let of_any: *const (dyn Fn() + Sync + 'static) = unsafe { std::mem::transmute(of) };
        let next = (state.load(Ordering::Relaxed) & !(OPEN | WITHIN)).wrapping_add(CALL);
        // SAFETY: `busy` is ours, the door is closed and nobody is within since the last `Open`.
        unsafe { *call.get() = Some(Call { of: of_any, caller: thread::current() }) };
        // SYNC: release, pairs with the acquire of members: they see the call.
        state.store(next | OPEN, Ordering::Release);
        let open = Open(&self.shared);
        self.members.iter().for_each(|member| member.thread().unpark());
        of();
        drop(open);
        let panicked = lock(panic).take();
        if let Some(panicked) = panicked {
            resume_unwind(panicked);
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        for member in self.members.drain(..) {
            member.thread().unpark();
            let _ended = member.join();
        }
    }
}

/// The door while it is open; closing it waits for those within.
struct Open<'a>(&'a Shared);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let Shared { state, busy, call, .. } = self.0;
        // SYNC: acquire, here and below: what members wrote is seen by the caller.
        let mut within = state.fetch_and(!OPEN, Ordering::AcqRel) & WITHIN;
        let mut looks = 0;
        while within != 0 {
            if looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
            } else {
                // The last member to leave a closed door unparks.
                thread::park();
            }
            within = state.load(Ordering::Acquire) & WITHIN;
        }
        // SAFETY: the door is closed and nobody is within.
        unsafe { *call.get() = None };
        busy.store(false, Ordering::Release);
    }
}

impl Shared {
    /// The life of a member.
    fn serve(&self) {
        let (mut seen, mut looks) = (0, 0);
        while !self.ended.load(Ordering::Acquire) {
            let now = self.state.load(Ordering::Acquire);
            if now & OPEN != 0 && now / CALL != seen {
                let within = now + 1;
                let state = &self.state;
                if state.compare_exchange(now, within, Ordering::AcqRel, Ordering::Relaxed).is_ok()
                {
                    (seen, looks) = (now / CALL, 0);
                    self.help();
                }
            } else if looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
            } else {
                // Whoever opens the door unparks afterwards.
                thread::park();
                looks = 0;
            }
        }
    }

    /// The part of a member within.
    fn help(&self) {
        // SAFETY: we came in while the door was open, so the call lies there until we leave.
        let Some(call) = (unsafe { &*self.call.get() }) else { return };
        let caller = call.caller.clone();
        // SAFETY: as above; what it points to outlives our being within.
        let of = unsafe { &*call.of };
        if let Err(panicked) = catch_unwind(AssertUnwindSafe(of)) {
            *lock(&self.panic) = Some(panicked);
        }
        // SYNC: release, pairs with the acquire of the caller: what was written is there.
        let before = self.state.fetch_sub(1, Ordering::AcqRel);
        if before & (OPEN | WITHIN) == 1 {
            caller.unpark();
        }
    }
}

/// Cost of a call of the team: some 3 µs.
pub const WAKING: usize = 250_000;

/// An estimate of what a task costs on one thread: floating-point operations of a convolution, for
/// a task of so many floating-point operations and elements of results.
#[must_use]
pub fn cost(flops: u64, elements: usize) -> usize {
    usize::try_from(flops).unwrap_or(usize::MAX).max(moved(elements))
}

/// The same on a team of so many threads, if the task deals its result out.
#[must_use]
pub fn shared(cost: usize, threads: usize) -> usize {
    let parts = (cost / PART).min(threads * PARTS);
    if cost < WORTH || threads < 2 || parts < 2 {
        return cost;
    }
    cost / parts * parts.div_ceil(threads) + WAKING
}

/// The cost of so many elements that are read, changed a little and written.
pub(crate) const fn moved(elements: usize) -> usize {
    elements.saturating_mul(24)
}

/// Whether parts are dealt out at all.
pub(crate) fn deals(team: Option<&Team>) -> bool {
    team.is_some_and(|team| team.threads() > 1)
}

/// Deals `out` out in parts of some units: `size` elements, which cost so many floating-point
/// operations of a convolution. What is too little is one part, here. `of` gets the number of the
/// first unit of a part, and the part.
pub(crate) fn deal<T: Send>(
    team: Option<&Team>,
    out: &mut [T],
    (size, cost): (usize, usize),
    of: impl Fn(usize, &mut [T]) + Sync,
) {
    let size = size.max(1);
    let units = out.len().div_ceil(size);
    let (threads, cost) = (team.map_or(1, Team::threads), units.saturating_mul(cost));
    let parts = if cost < WORTH { 1 } else { (cost / PART).min(threads * PARTS).min(units) };
    let Some(team) = team.filter(|team| team.threads() > 1 && parts > 1) else {
        return of(0, out);
    };
    let each = units.div_ceil(parts);
    let parts = Mutex::new(out.chunks_mut(each * size).enumerate());
    let limit = isa::limit();
    team.call(&|| {
        isa::at_most(limit, || {
            loop {
                let next = lock(&parts).next();
                let Some((index, part)) = next else { break };
                of(index * each, part);
            }
        });
    });
}

/// Cuts a part at the borders of planes of `rows` units: `of` gets the first plane, the first row
/// in it, and either some rows of one plane or some whole planes.
#[inline(always)]
pub(crate) fn planes<T>(
    first: usize,
    part: &mut [T],
    (rows, size): (usize, usize),
    mut of: impl FnMut(usize, usize, &mut [T]),
) {
    let (mut at, mut rest) = (first, part);
    while !rest.is_empty() {
        let (plane, row) = (at / rows, at % rows);
        let whole = rest.len() / (rows * size);
        let count = if row == 0 && whole > 0 { whole * rows } else { rows - row };
        let (own, tail) = rest.split_at_mut((count * size).min(rest.len()));
        of(plane, row, own);
        (at, rest) = (at + count, tail);
    }
}

mod bands;
#[cfg(test)]
mod tests;

pub(crate) use bands::{PLANES, bands};
