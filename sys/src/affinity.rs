//! Which processors a thread may run on.
#![allow(unsafe_code, reason = "sched_setaffinity and friends")]

use core::mem::{size_of, zeroed};

use crate::errno::{Errno, Result, SysError, check};

/// Processors a `cpu_set_t` can name.
const CPU_COUNT_MAX: usize = 8 * size_of::<libc::cpu_set_t>();

/// `int sched_setaffinity(pid_t pid, size_t cpusetsize, const cpu_set_t *mask);` for one processor.
///
/// Threads and processes started by the calling thread inherit the restriction.
///
/// # Errors
/// `EINVAL`: the processor does not exist, is offline, or is outside the thread's cpuset.
///
/// # References
/// sched_setaffinity(2)
pub fn pin_current(cpu: usize) -> Result<()> {
    set_current(&[cpu])
}

/// `int sched_setaffinity(pid_t pid, size_t cpusetsize, const cpu_set_t *mask);` for a list.
///
/// # Errors
/// `EINVAL`: no processor of the list can be used, or a number is beyond `cpu_set_t`.
///
/// # References
/// sched_setaffinity(2)
pub fn set_current(cpus: &[usize]) -> Result<()> {
    // SAFETY: cpu_set_t is an array of integers; all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    for &cpu in cpus {
        if cpu >= CPU_COUNT_MAX {
            return Err(SysError::new("sched_setaffinity", Errno::INVAL));
        }
        // SAFETY: `cpu` is below the set's capacity, checked above.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: `set` is a valid set of the given size; 0 means the calling thread.
    let result =
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    check("sched_setaffinity", result).map(drop)
}

/// `int sched_getaffinity(pid_t pid, size_t cpusetsize, cpu_set_t *mask);`
///
/// Processors the calling thread may run on, ascending.
///
/// # Errors
/// `EINVAL`: the machine has more processors than `cpu_set_t` can name.
///
/// # References
/// sched_getaffinity(2)
pub fn allowed() -> Result<Vec<usize>> {
    // SAFETY: cpu_set_t is an array of integers; all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: `set` is writable and has the given size; 0 means the calling thread.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    check("sched_getaffinity", result)?;
    // SAFETY: every number of the range is below the set's capacity.
    Ok((0..CPU_COUNT_MAX).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// `int sched_getcpu(void);`
///
/// The processor the calling thread runs on at this moment.
///
/// # References
/// sched_getcpu(3)
#[must_use]
pub fn current_cpu() -> usize {
    // SAFETY: no arguments, no effect.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::{CPU_COUNT_MAX, Errno, allowed, current_cpu, pin_current};

    #[test]
    fn a_pinned_thread_runs_where_it_was_put() {
        let cpus = allowed().expect("affinity");
        assert!(!cpus.is_empty());
        for cpu in cpus {
            let seen = thread::spawn(move || {
                pin_current(cpu).expect("pin");
                (current_cpu(), allowed().expect("affinity"))
            });
            assert_eq!(seen.join().expect("thread"), (cpu, vec![cpu]));
        }
    }

    #[test]
    fn a_processor_that_does_not_exist_is_refused() {
        for cpu in [CPU_COUNT_MAX - 1, CPU_COUNT_MAX, usize::MAX] {
            assert_eq!(pin_current(cpu).expect_err("no such cpu").errno, Errno::INVAL);
        }
    }
}
