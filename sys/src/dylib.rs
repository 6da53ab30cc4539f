//! Shared libraries loaded at run time.
#![allow(unsafe_code, reason = "dlopen, dlsym, dlclose")]

use core::fmt;
use core::mem::{size_of, transmute_copy};
use core::ptr::NonNull;
use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The loader's own explanation, which names the file and the missing symbol or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DylibError(pub String);

impl fmt::Display for DylibError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dlopen: {}", self.0)
    }
}

impl core::error::Error for DylibError {}

/// A loaded library. It stays loaded when this value is dropped, because code of it may still run
/// or be pointed to; only [`Library::close`] gives it up.
#[derive(Debug)]
pub struct Library {
    handle: NonNull<c_void>,
}

// SAFETY: the handle is a reference into the loader's table, which every thread may use; the loader
// locks its own state.
unsafe impl Send for Library {}
// SAFETY: as above; dlsym does not change the handle.
unsafe impl Sync for Library {}

impl Library {
    /// `void *dlopen(const char *path, RTLD_NOW | RTLD_LOCAL);`
    ///
    /// Loads a file and runs its constructors. Every symbol is resolved now, so that a missing one
    /// is an error here and not a death later. `/proc/self/fd/<number>` loads a memory file.
    ///
    /// # Errors
    /// The file is missing, no library of this machine, or needs what is not there.
    ///
    /// # References
    /// dlopen(3), dlerror(3)
    pub fn open(path: &Path) -> Result<Self, DylibError> {
        Self::load(path, libc::RTLD_LOCAL)
    }

    /// `void *dlopen(const char *path, RTLD_NOW | RTLD_GLOBAL);`
    ///
    /// As [`Library::open`]; libraries that are loaded later may use its symbols without naming it.
    ///
    /// # Errors
    /// As [`Library::open`].
    ///
    /// # References
    /// dlopen(3)
    pub fn open_global(path: &Path) -> Result<Self, DylibError> {
        Self::load(path, libc::RTLD_GLOBAL)
    }

    fn load(path: &Path, visibility: libc::c_int) -> Result<Self, DylibError> {
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| DylibError(format!("{}: a zero byte in the path", path.display())))?;
        // SAFETY: a live C string. Constructors of the library run here: to load code is to trust
        // it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | visibility) };
        match NonNull::new(handle) {
            Some(handle) => Ok(Self { handle }),
            None => Err(last_error(path)),
        }
    }

    /// `void *dlsym(void *handle, const char *symbol);`
    ///
    /// The address of a symbol of this library or one it depends on, as a `T`, which is a function
    /// pointer or a raw pointer; `None` when there is no such symbol or it is null.
    ///
    /// # Safety
    /// * `T` is the type of what the library exports under the name (for a variable: a pointer to
    ///   it).
    /// * The result is not used after [`Library::close`].
    ///
    /// # References
    /// dlsym(3)
    #[must_use]
    pub unsafe fn symbol<T: Copy>(&self, name: &CStr) -> Option<T> {
        const { assert!(size_of::<T>() == size_of::<*mut c_void>(), "T is the size of a pointer") }
        let address = self.address(name)?;
        // SAFETY: sizes are equal (checked above), and the caller says that the address is a `T`.
        Some(unsafe { transmute_copy::<NonNull<c_void>, T>(&address) })
    }

    /// `void *dlsym(void *handle, const char *symbol);`: the address alone.
    ///
    /// # References
    /// dlsym(3)
    #[must_use]
    pub fn address(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is open, because only `close` closes it and takes `self`.
        NonNull::new(unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) })
    }

    /// `int dlclose(void *handle);`
    ///
    /// Gives the library up; the loader unloads it when nothing else needs it.
    ///
    /// # Safety
    /// Nothing of the library is used any more: no code of it runs, and no pointer into it is kept.
    ///
    /// # Errors
    /// The loader's explanation.
    ///
    /// # References
    /// dlclose(3)
    pub unsafe fn close(self) -> Result<(), DylibError> {
        // SAFETY: the handle is open; the caller says that nothing uses the library.
        if unsafe { libc::dlclose(self.handle.as_ptr()) } == 0 {
            Ok(())
        } else {
            Err(last_error(Path::new("dlclose")))
        }
    }
}

/// The loader's message of this thread's last failure.
fn last_error(path: &Path) -> DylibError {
    // SAFETY: no arguments; the text belongs to the thread until its next loader call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return DylibError(format!("{}: the loader gives no reason", path.display()));
    }
    // SAFETY: not null, so a C string, copied before any other loader call of this thread.
    DylibError(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::memfd;

    /// The path of libc as this process maps it.
    fn libc_path() -> String {
        let maps = fs::read_to_string("/proc/self/maps").expect("maps");
        let path = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        path.into_iter()
            .find(|path| path.contains("libc.so") || path.contains("/libc-"))
            .expect("a mapped libc")
            .to_owned()
    }

    #[test]
    fn a_symbol_can_be_called() {
        let library = Library::open(Path::new(&libc_path())).expect("open");
        // SAFETY: `abs` is `int abs(int)` in every libc, and libc stays loaded.
        let abs = unsafe { library.symbol::<extern "C" fn(i32) -> i32>(c"abs") }.expect("abs");
        assert_eq!(abs(-3), 3);
        assert!(library.address(c"no_such_symbol_anywhere").is_none());
        // SAFETY: `abs` is not used any more.
        unsafe { library.close() }.expect("close");
    }

    #[test]
    fn a_memory_file_can_be_loaded() {
        let libm = Path::new(&libc_path()).with_file_name("libm.so.6");
        let fd = memfd::from_bytes("libm", &fs::read(libm).expect("read libm")).expect("memfd");
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let library = Library::open(Path::new(&path)).expect("open");
        // SAFETY: `floor` is `double floor(double)`, and the library stays loaded.
        let floor = unsafe { library.symbol::<extern "C" fn(f64) -> f64>(c"floor") };
        assert!((floor.expect("floor")(1.5) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn the_loader_says_why() {
        let error = Library::open(Path::new("/nonexistent.so")).expect_err("missing");
        assert!(error.to_string().contains("/nonexistent.so"), "{error}");
        let error = Library::open(Path::new("/etc/passwd")).expect_err("no library");
        assert!(error.0.contains("/etc/passwd"), "{error}");
        assert!(Library::open(Path::new("a\0b")).is_err());
    }
}
