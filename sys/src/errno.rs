//! Error numbers of the operating system, and the one error type of this crate.
//!
//! [`Errno`] is a newtype with constants, never an enum: a number this file does not know is still
//! a value. [`SysError`] says which call failed and why; it is `Copy` and holds no string.
#![allow(unsafe_code, reason = "errno is a thread-local of libc")]

use core::fmt;
use core::num::NonZeroI32;

/// The result of every call in this crate.
pub type Result<T> = core::result::Result<T, SysError>;

/// A positive error number as the kernel reports it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(NonZeroI32);

macro_rules! errno_table {
    ($($constant:ident = $raw:ident, $text:literal;)*) => {
        impl Errno {
            $(#[doc = concat!("`", stringify!($raw), "`: ", $text, ".")]
            pub const $constant: Self = Self::from_const(libc::$raw);)*

            /// The symbolic name, for example `ENOMEM`; `None` for a number this crate has no name
            /// for.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0.get() {
                    $(libc::$raw => Some(stringify!($raw)),)*
                    _ => None,
                }
            }

            /// A short English description.
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self.0.get() {
                    $(libc::$raw => $text,)*
                    _ => "Unknown error",
                }
            }
        }
    };
}

errno_table! {
    PERM = EPERM, "Operation not permitted";
    NOENT = ENOENT, "No such file or directory";
    SRCH = ESRCH, "No such process";
    INTR = EINTR, "Interrupted system call";
    IO = EIO, "Input/output error";
    NXIO = ENXIO, "No such device or address";
    TOOBIG = E2BIG, "Argument list too long";
    NOEXEC = ENOEXEC, "Exec format error";
    BADF = EBADF, "Bad file descriptor";
    CHILD = ECHILD, "No child processes";
    AGAIN = EAGAIN, "Resource temporarily unavailable";
    NOMEM = ENOMEM, "Cannot allocate memory";
    ACCES = EACCES, "Permission denied";
    FAULT = EFAULT, "Bad address";
    BUSY = EBUSY, "Device or resource busy";
    EXIST = EEXIST, "File exists";
    NODEV = ENODEV, "No such device";
    NOTDIR = ENOTDIR, "Not a directory";
    ISDIR = EISDIR, "Is a directory";
    INVAL = EINVAL, "Invalid argument";
    NFILE = ENFILE, "Too many open files in system";
    MFILE = EMFILE, "Too many open files";
    NOTTY = ENOTTY, "Inappropriate ioctl for device";
    TXTBSY = ETXTBSY, "Text file busy";
    FBIG = EFBIG, "File too large";
    NOSPC = ENOSPC, "No space left on device";
    SPIPE = ESPIPE, "Illegal seek";
    ROFS = EROFS, "Read-only file system";
    PIPE = EPIPE, "Broken pipe";
    RANGE = ERANGE, "Numerical result out of range";
    DEADLK = EDEADLK, "Resource deadlock avoided";
    NAMETOOLONG = ENAMETOOLONG, "File name too long";
    NOSYS = ENOSYS, "Function not implemented";
    LOOP = ELOOP, "Too many levels of symbolic links";
    OVERFLOW = EOVERFLOW, "Value too large for defined data type";
    NOTSOCK = ENOTSOCK, "Socket operation on non-socket";
    MSGSIZE = EMSGSIZE, "Message too long";
    OPNOTSUPP = EOPNOTSUPP, "Operation not supported";
    ADDRINUSE = EADDRINUSE, "Address already in use";
    CONNRESET = ECONNRESET, "Connection reset by peer";
    NOBUFS = ENOBUFS, "No buffer space available";
    NOTCONN = ENOTCONN, "Transport endpoint is not connected";
    TIMEDOUT = ETIMEDOUT, "Connection timed out";
    CONNREFUSED = ECONNREFUSED, "Connection refused";
    CANCELED = ECANCELED, "Operation canceled";
    OWNERDEAD = EOWNERDEAD, "Owner died";
    USERS = EUSERS, "Too many users";
}

impl Errno {
    const fn from_const(raw: i32) -> Self {
        match NonZeroI32::new(raw) {
            Some(number) => Self(number),
            None => panic!("zero is not an error number"),
        }
    }

    /// Wraps a raw number; zero, which is no error, becomes `EIO`.
    #[must_use]
    pub const fn from_raw(raw: i32) -> Self {
        match NonZeroI32::new(raw) {
            Some(number) => Self(number),
            None => Self::IO,
        }
    }

    /// `int errno;`: the number left by the last failed call of this thread.
    ///
    /// # References
    /// errno(3)
    #[must_use]
    pub fn last() -> Self {
        // SAFETY: no arguments, no effect.
        let location = unsafe { libc::__errno_location() };
        // SAFETY: libc returned a valid pointer to this thread's own errno.
        Self::from_raw(unsafe { location.read() })
    }

    /// The number, as in `errno.h`.
    #[must_use]
    pub const fn raw(self) -> i32 {
        self.0.get()
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.description()),
            None => write!(f, "errno {} ({})", self.raw(), self.description()),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A failed call: its name and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SysError {
    /// Name of the call, for example `mmap`.
    pub call: &'static str,
    /// The reason.
    pub errno: Errno,
}

impl SysError {
    /// An error of `call` with a given reason.
    #[must_use]
    pub const fn new(call: &'static str, errno: Errno) -> Self {
        Self { call, errno }
    }

    /// An error of `call` with the reason this thread's errno holds.
    #[must_use]
    pub fn last(call: &'static str) -> Self {
        Self::new(call, Errno::last())
    }

    /// An error of `call` with the number a [`std::io::Error`] carries (`EIO` when it carries
    /// none).
    #[must_use]
    pub fn from_io(call: &'static str, error: &std::io::Error) -> Self {
        Self::new(call, error.raw_os_error().map_or(Errno::IO, Errno::from_raw))
    }
}

impl fmt::Display for SysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, self.errno)
    }
}

impl core::error::Error for SysError {}

impl From<SysError> for std::io::Error {
    fn from(error: SysError) -> Self {
        Self::from_raw_os_error(error.errno.raw())
    }
}

/// Turns the `-1` of a libc call into an error; other values pass.
pub(crate) fn check(call: &'static str, value: i32) -> Result<i32> {
    if value == -1 { Err(SysError::last(call)) } else { Ok(value) }
}

/// Turns a negative length of a libc call into an error; other values pass.
pub(crate) fn check_len(call: &'static str, value: isize) -> Result<usize> {
    usize::try_from(value).map_err(|_| SysError::last(call))
}

/// Repeats `operation` while it fails with `EINTR`. Only for calls that may be repeated unchanged.
///
/// # Errors
/// Whatever else `operation` fails with.
pub fn retry_on_intr<T>(mut operation: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match operation() {
            Err(error) if error.errno == Errno::INTR => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Errno, SysError, check, retry_on_intr};

    #[test]
    fn display_names_the_call_and_the_reason() {
        let error = SysError::new("mmap", Errno::NOMEM);
        assert_eq!(error.to_string(), "mmap: ENOMEM (Cannot allocate memory)");
    }

    #[test]
    fn an_unknown_number_is_a_value() {
        let errno = Errno::from_raw(9999);
        assert_eq!(errno.raw(), 9999);
        assert_eq!(errno.name(), None);
        assert_eq!(errno.to_string(), "errno 9999 (Unknown error)");
        assert_eq!(Errno::from_raw(0), Errno::IO);
    }

    #[test]
    fn check_reads_errno_of_a_failed_call() {
        // SAFETY: close of a number that is never open fails without effect.
        let result = check("close", unsafe { libc::close(-1) });
        assert_eq!(result, Err(SysError::new("close", Errno::BADF)));
        assert_eq!(check("close", 0), Ok(0));
    }

    #[test]
    fn retry_ends_at_the_first_other_outcome() {
        let mut attempts = 0;
        let result = retry_on_intr(|| {
            attempts += 1;
            if attempts < 3 { Err(SysError::new("read", Errno::INTR)) } else { Ok(attempts) }
        });
        assert_eq!(result, Ok(3));
        let failed = retry_on_intr(|| Err::<(), _>(SysError::new("read", Errno::IO)));
        assert_eq!(failed, Err(SysError::new("read", Errno::IO)));
    }

    #[test]
    fn io_error_round_trip() {
        let io = std::io::Error::from(SysError::new("open", Errno::NOENT));
        assert_eq!(SysError::from_io("open", &io), SysError::new("open", Errno::NOENT));
    }
}
