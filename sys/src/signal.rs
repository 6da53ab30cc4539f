//! Signals: numbers, masks, dispositions, a flag set by a handler, and a hook for memory faults.
//!
//! A handler runs between two arbitrary instructions, so everything reached from one is
//! async-signal-safe: atomics and a few system calls, no allocation, no lock.
#![allow(unsafe_code, reason = "sigaction, sigprocmask and the handlers themselves")]

use core::fmt;
use core::mem::zeroed;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

pub use crate::fault::{AlternateStack, FaultHook, on_fault};

use crate::errno::{Errno, Result, SysError, check};

/// A signal number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signal(i32);

/// One more than the largest signal number of Linux.
pub(crate) const SIGNAL_COUNT: usize = 65;

macro_rules! signal_table {
    ($($constant:ident = $raw:ident;)*) => {
        impl Signal {
            $(#[doc = concat!("`", stringify!($raw), "`.")]
            pub const $constant: Self = Self(libc::$raw);)*

            /// The symbolic name, for example `SIGTERM`; `None` for a number without one here.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $(libc::$raw => Some(stringify!($raw)),)*
                    _ => None,
                }
            }
        }
    };
}

signal_table! {
    HUP = SIGHUP;
    INT = SIGINT;
    QUIT = SIGQUIT;
    ILL = SIGILL;
    TRAP = SIGTRAP;
    ABRT = SIGABRT;
    BUS = SIGBUS;
    FPE = SIGFPE;
    KILL = SIGKILL;
    USR1 = SIGUSR1;
    SEGV = SIGSEGV;
    USR2 = SIGUSR2;
    PIPE = SIGPIPE;
    ALRM = SIGALRM;
    TERM = SIGTERM;
    CHLD = SIGCHLD;
    CONT = SIGCONT;
    STOP = SIGSTOP;
    TSTP = SIGTSTP;
    TTIN = SIGTTIN;
    TTOU = SIGTTOU;
    XCPU = SIGXCPU;
    XFSZ = SIGXFSZ;
    SYS = SIGSYS;
}

impl Signal {
    /// A signal from its number; `None` outside `1..=64`.
    #[must_use]
    pub const fn from_raw(raw: i32) -> Option<Self> {
        if raw >= 1 && raw <= 64 { Some(Self(raw)) } else { None }
    }

    /// The number, as in `signal.h`.
    #[must_use]
    pub const fn raw(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "signal {}", self.0),
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `int pthread_sigmask(SIG_BLOCK, const sigset_t *set, sigset_t *oldset);`
///
/// Adds signals to the calling thread's mask. Threads started later inherit it.
///
/// # Errors
/// None in practice; `EINVAL` would mean a broken libc.
///
/// # References
/// pthread_sigmask(3)
pub fn block(set: &[Signal]) -> Result<()> {
    change_mask(libc::SIG_BLOCK, set)
}

/// `int pthread_sigmask(SIG_UNBLOCK, const sigset_t *set, sigset_t *oldset);`
///
/// Removes signals from the calling thread's mask; pending ones arrive at once.
///
/// # Errors
/// As [`block`].
///
/// # References
/// pthread_sigmask(3)
pub fn unblock(set: &[Signal]) -> Result<()> {
    change_mask(libc::SIG_UNBLOCK, set)
}

/// `int sigaction(int signum, const struct sigaction *act, NULL);` with `SIG_IGN`.
///
/// The process discards the signal, and so do programs it executes, unless they reset it.
///
/// # Errors
/// `EINVAL`: `SIGKILL` or `SIGSTOP`.
///
/// # References
/// sigaction(2)
pub fn ignore(signal: Signal) -> Result<()> {
    set_disposition(signal, libc::SIG_IGN, 0)
}

/// `int sigaction(int signum, const struct sigaction *act, NULL);` with `SIG_DFL`.
///
/// # Errors
/// `EINVAL`: `SIGKILL` or `SIGSTOP`.
///
/// # References
/// sigaction(2)
pub fn reset(signal: Signal) -> Result<()> {
    set_disposition(signal, libc::SIG_DFL, 0)
}

/// `int sigaction(int signum, const struct sigaction *act, NULL);` with a handler that sets `flag`.
///
/// Interrupted system calls are not restarted, so that a waiting loop gets to look at the flag. A
/// signal that comes between the look and the wait is lost to the wait; where that matters, name
/// the word of a futex wait ([`wake_on`]), or block the signal and use [`crate::signalfd`].
///
/// # Errors
/// `EINVAL`: `SIGKILL` or `SIGSTOP`.
///
/// # References
/// sigaction(2), signal-safety(7)
pub fn install_flag(signal: Signal, flag: &'static AtomicBool) -> Result<()> {
    let slot = usize::try_from(signal.0).ok().and_then(|index| FLAGS.get(index));
    let slot = slot.ok_or(SysError::new("sigaction", Errno::INVAL))?;
    // SYNC: release, pairs with the acquire load in `set_flag`.
    slot.store(ptr::from_ref(flag).cast_mut(), Ordering::Release);
    let handler: extern "C" fn(i32) = set_flag;
    set_disposition(signal, handler as *const () as libc::sighandler_t, 0)
}

/// Besides setting its flag, `signal` wakes whoever futex-waits on `word`, and makes a wait that
/// has not begun yet return at once (the word is counted up): no sleep misses the flag.
///
/// # Errors
/// `EINVAL`: no such signal.
pub fn wake_on(signal: Signal, word: &'static AtomicU32) -> Result<()> {
    let slot = usize::try_from(signal.0).ok().and_then(|index| WORDS.get(index));
    let slot = slot.ok_or(SysError::new("sigaction", Errno::INVAL))?;
    // SYNC: release, pairs with the acquire load in `set_flag`.
    slot.store(ptr::from_ref(word).cast_mut(), Ordering::Release);
    Ok(())
}

/// One word per signal number; null where none is to be woken.
static WORDS: [AtomicPtr<AtomicU32>; SIGNAL_COUNT] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SIGNAL_COUNT];

/// One flag per signal number; null where none is installed.
static FLAGS: [AtomicPtr<AtomicBool>; SIGNAL_COUNT] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SIGNAL_COUNT];

extern "C" fn set_flag(signal: i32) {
    let slot = usize::try_from(signal).ok().and_then(|index| FLAGS.get(index));
    // SYNC: acquire, pairs with the release store in `install_flag`.
    let flag = slot.map_or(ptr::null_mut(), |slot| slot.load(Ordering::Acquire));
    // SAFETY: null, or a `&'static AtomicBool` stored by `install_flag`.
    if let Some(flag) = unsafe { flag.as_ref() } {
        // SYNC: release, so that whoever sees the flag sees what happened before the signal.
        flag.store(true, Ordering::Release);
    }
    let slot = usize::try_from(signal).ok().and_then(|index| WORDS.get(index));
    // SYNC: acquire, pairs with the release store in `wake_on`.
    let word = slot.map_or(ptr::null_mut(), |slot| slot.load(Ordering::Acquire));
    // SAFETY: null, or a `&'static AtomicU32` stored by `wake_on`.
    if let Some(word) = unsafe { word.as_ref() } {
        // SYNC: release: whoever sees the count sees the flag.
        word.fetch_add(1, Ordering::Release);
        // It can't fail on a mapped word, so the interrupted code's errno stays.
        crate::futex::wake(word, u32::MAX);
    }
}

/// A set with the given members.
pub(crate) fn set_of(signals: &[Signal]) -> libc::sigset_t {
    // SAFETY: sigset_t is an array of integers; all zeroes is the empty set.
    let mut set: libc::sigset_t = unsafe { zeroed() };
    for signal in signals {
        // SAFETY: `set` is a valid set; the call refuses numbers outside of it.
        unsafe { libc::sigaddset(&raw mut set, signal.0) };
    }
    set
}

/// The set of all signals.
pub(crate) fn full_set() -> libc::sigset_t {
    // SAFETY: sigset_t is an array of integers; all zeroes is the empty set.
    let mut set: libc::sigset_t = unsafe { zeroed() };
    // SAFETY: `set` is a valid set.
    unsafe { libc::sigfillset(&raw mut set) };
    set
}

/// Replaces the calling thread's mask and returns the previous one.
pub(crate) fn replace_mask(set: &libc::sigset_t) -> Result<libc::sigset_t> {
    // SAFETY: sigset_t is an array of integers; all zeroes is the empty set.
    let mut old: libc::sigset_t = unsafe { zeroed() };
    // SAFETY: both pointers are to live sets.
    let result = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set, &raw mut old) };
    if result == 0 { Ok(old) } else { Err(SysError::new("sigmask", Errno::from_raw(result))) }
}

/// Sets a disposition with an empty handler mask.
pub(crate) fn set_disposition(
    signal: Signal,
    handler: libc::sighandler_t,
    flags: i32,
) -> Result<()> {
    // SAFETY: libc::sigaction is integers and an optional function pointer; all zeroes is a value.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: `action` is complete; the handlers this crate passes are async-signal-safe.
    let result = unsafe { libc::sigaction(signal.0, &raw const action, ptr::null_mut()) };
    check("sigaction", result).map(drop)
}

fn change_mask(how: i32, signals: &[Signal]) -> Result<()> {
    let set = set_of(signals);
    // SAFETY: `set` is a valid set; a null old set is permitted.
    let result = unsafe { libc::pthread_sigmask(how, &raw const set, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(SysError::new("sigmask", Errno::from_raw(result))) }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn raise(signal: Signal) {
        // SAFETY: sends a signal to the calling thread.
        assert_eq!(unsafe { libc::raise(signal.raw()) }, 0);
    }

    #[test]
    fn names_and_numbers() {
        assert_eq!(Signal::KILL.to_string(), "SIGKILL");
        assert_eq!(Signal::from_raw(40).map(|signal| signal.to_string()), Some("signal 40".into()));
        assert_eq!(Signal::from_raw(0), None);
        assert_eq!(Signal::from_raw(65), None);
        assert_eq!(Signal::from_raw(Signal::TERM.raw()), Some(Signal::TERM));
    }

    #[test]
    fn a_flag_is_set_at_delivery() {
        static SEEN: AtomicBool = AtomicBool::new(false);
        install_flag(Signal::USR1, &SEEN).expect("handler");
        // The mask is the thread's own, so other tests are not affected.
        let thread = thread::spawn(|| {
            block(&[Signal::USR1]).expect("block");
            raise(Signal::USR1);
            let before = SEEN.load(Ordering::Acquire);
            unblock(&[Signal::USR1]).expect("unblock");
            (before, SEEN.load(Ordering::Acquire))
        });
        assert_eq!(thread.join().expect("thread"), (false, true));
    }

    #[test]
    fn a_signal_wakes_the_word_it_was_given() {
        static SEEN: AtomicBool = AtomicBool::new(false);
        static WORD: AtomicU32 = AtomicU32::new(7);
        install_flag(Signal::HUP, &SEEN).expect("handler");
        wake_on(Signal::HUP, &WORD).expect("word");
        let watchdog = crate::clock::MonoTime::now().add_ms(60_000);
        let sleeper = thread::spawn(move || {
            while !SEEN.load(Ordering::Acquire) {
                // Returns at once when the signal came between the look and the wait.
                let woken = crate::futex::wait(&WORD, 7, Some(watchdog));
                assert_ne!(woken, crate::futex::WaitOutcome::TimedOut, "nobody woke it");
            }
        });
        let sender = thread::spawn(|| raise(Signal::HUP));
        sender.join().expect("sender");
        sleeper.join().expect("the sleeper was woken, though the signal was another thread's");
        assert_eq!(WORD.load(Ordering::Acquire), 8);
        assert_eq!(wake_on(Signal(99), &WORD).expect_err("refused").errno, Errno::INVAL);
    }

    #[test]
    fn an_ignored_signal_is_discarded() {
        ignore(Signal::USR2).expect("ignore");
        raise(Signal::USR2);
        reset(Signal::USR2).expect("reset");
    }

    #[test]
    fn kill_and_stop_have_one_disposition() {
        static FLAG: AtomicBool = AtomicBool::new(false);
        assert_eq!(ignore(Signal::KILL).expect_err("refused").errno, Errno::INVAL);
        assert_eq!(install_flag(Signal::STOP, &FLAG).expect_err("refused").errno, Errno::INVAL);
    }

    #[test]
    fn replacing_a_mask_gives_the_old_one() {
        let thread = thread::spawn(|| {
            let before = replace_mask(&full_set()).expect("mask");
            let full = replace_mask(&before).expect("mask");
            // SAFETY: queries of valid sets.
            unsafe { libc::sigismember(&raw const full, libc::SIGTERM) }
        });
        assert_eq!(thread.join().expect("thread"), 1);
        let set = set_of(&[Signal::TERM]);
        // SAFETY: a query of a valid set.
        assert_eq!(unsafe { libc::sigismember(&raw const set, libc::SIGINT) }, 0);
    }
}
