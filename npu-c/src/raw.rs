//! What comes over the border: pointers that the header asks the caller for. They are read and
//! written here and nowhere else.
#![allow(unsafe_code, reason = "pointers of C callers")]

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use npu_device::codes::INTERNAL_ERROR;
use npu_device::{Error, RawMemory, Result};

use crate::state::NULL;

/// A place for a result, or values of the caller's: null, or valid. Only C makes one.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn put(&self, value: T) -> Result<()> {
        let place = NonNull::new(self.0).ok_or_else(|| null("a place for a result"))?;
        // SAFETY:
        // - not null, and else the header asks the caller for a place of this type.
        unsafe { place.write(value) };
        Ok(())
    }

    pub(crate) fn get(&self) -> Result<T> {
        let place = NonNull::new(self.0).ok_or_else(|| null("a value"))?;
        // SAFETY:
        // - as above; the header asks for a value here.
        Ok(unsafe { place.read() })
    }

    /// A place that a structure of the caller's names.
    pub(crate) fn of_address(address: u64) -> Self {
        let address = usize::try_from(address).unwrap_or(0);
        Self(std::ptr::with_exposed_provenance_mut(address))
    }

    /// The place `index` behind it; the caller said how many there are.
    fn at(&self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// Writes one value after the other; the caller said that there is room.
    pub(crate) fn put_all(&self, values: impl IntoIterator<Item = T>) -> Result<()> {
        values.into_iter().enumerate().try_for_each(|(index, value)| self.at(index).put(value))
    }

    /// The first `count` values.
    pub(crate) fn list(&self, count: usize) -> Result<Vec<T>> {
        if self.is_null() {
            return Err(null("an array"));
        }
        (0..count).map(|index| self.at(index).get()).collect()
    }
}

/// A text, null or ending in 0: only C makes one.
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn read(&self) -> Result<Cow<'_, str>> {
        if self.is_null() {
            return Err(null("a text"));
        }
        // SAFETY:
        // - not null, and the header asks for a text that ends in 0.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy())
    }
}

/// An error of a null pointer.
pub(crate) fn null(what: &str) -> Error {
    Error::new(NULL, format!("{what} is null"))
}

/// A process that was forked from one with a device has none of its threads, and locks that nobody
/// opens: there every call is refused at once.
pub(crate) mod forked {
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, Ordering};

    static FORKED: AtomicBool = AtomicBool::new(false);

    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
    }

    /// From here on a fork is noticed; a device is made next.
    pub(crate) fn watch() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // Without memory for it a fork is not noticed, and all else works.
            // SAFETY:
            // - the function only stores a flag, which a child may do at any time.
            let _watched = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
    }

    pub(crate) fn is_child() -> bool {
        FORKED.load(Ordering::Relaxed)
    }
}

/// Runs a call that gives a code.
pub(crate) fn answer(call: impl FnOnce() -> Result<()>) -> c_int {
    let internal = INTERNAL_ERROR.0.cast_signed();
    answer_or(internal, || {
        Ok(call().err().map_or(0, |error| {
            crate::state::remember(&error);
            error.code().0.cast_signed()
        }))
    })
}

/// Runs a call that gives something else; what it gives when it can't. Nothing unwinds into C.
pub(crate) fn answer_or<R>(otherwise: R, call: impl FnOnce() -> Result<R>) -> R {
    if forked::is_child() {
        return otherwise;
    }
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => {
            crate::state::remember(&error);
            otherwise
        }
        Err(_) => {
            crate::state::remember(&Error::new(INTERNAL_ERROR, "the call panicked"));
            otherwise
        }
    }
}

/// Exported functions: those that give a code, and those that give something else, with what they
/// give when they can't.
macro_rules! api {
    ($(
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty, or $otherwise:expr;)?
        $body:block
    )*) => {
        $(api! { @one $name($($arg: $type),*) [$($result, $otherwise)?] $body })*
    };
    (@one $name:ident($($arg:ident: $type:ty),*) [] $body:block) => {
        #[allow(unsafe_code, reason = "the name is the header's alone")]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($arg: $type),*) -> ::std::ffi::c_int {
            $crate::raw::answer(|| $body)
        }
    };
    (@one $name:ident($($arg:ident: $type:ty),*) [$result:ty, $otherwise:expr] $body:block) => {
        #[allow(unsafe_code, reason = "the name is the header's alone")]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($arg: $type),*) -> $result {
            $crate::raw::answer_or($otherwise, || $body)
        }
    };
}

/// The memory of the process, where tasks of C programs lie.
#[derive(Debug)]
pub(crate) struct Process;

fn place(address: u64) -> Option<*mut u8> {
    let address = usize::try_from(address).ok().filter(|address| *address != 0)?;
    Some(std::ptr::with_exposed_provenance_mut(address))
}

impl RawMemory for Process {
    fn load(&self, address: u64, bytes: usize) -> Option<u64> {
        let (from, mut word) = (place(address)?, [0; 8]);
        if bytes == 8 && address.is_multiple_of(8) {
            #[allow(clippy::cast_ptr_alignment, reason = "the address is a multiple of 8")]
            let from = from.cast::<u64>();
            // SAFETY:
            // - the caller gave this address to a task that reads 8 bytes, aligned.
            return Some(unsafe { from.read_volatile() });
        }
        for (index, byte) in word.iter_mut().take(bytes).enumerate() {
            // SAFETY:
            // - the caller gave this address to a task that reads so many bytes.
            *byte = unsafe { from.wrapping_add(index).read_volatile() };
        }
        Some(u64::from_le_bytes(word))
    }

    fn store(&self, address: u64, value: u64, bytes: usize) -> Option<()> {
        let to = place(address)?;
        if bytes == 8 && address.is_multiple_of(8) {
            #[allow(clippy::cast_ptr_alignment, reason = "the address is a multiple of 8")]
            let to = to.cast::<u64>();
            // SAFETY:
            // - the caller gave this address to a task that writes 8 bytes, aligned.
            unsafe { to.write_volatile(value) };
            return Some(());
        }
        for (index, byte) in value.to_le_bytes().into_iter().take(bytes).enumerate() {
            // SAFETY:
            // - the caller gave this address to a task that writes so many bytes.
            unsafe { to.wrapping_add(index).write_volatile(byte) };
        }
        Some(())
    }

    fn fill(&self, address: u64, value: u8, bytes: usize) -> Option<()> {
        let to = place(address)?;
        // SAFETY:
        // - the caller gave this address to a task that fills so many bytes.
        unsafe { to.write_bytes(value, bytes) };
        Some(())
    }

    fn copy(&self, to: u64, from: u64, bytes: usize) -> Option<()> {
        let (to, from) = (place(to)?, place(from)?);
        // SAFETY:
        // - the caller gave both addresses to a task that copies so many bytes.
        unsafe { from.copy_to(to, bytes) };
        Some(())
    }
}

/// Bytes of the caller's, for the time of one call.
pub(crate) fn bytes<'a>(address: usize, count: usize) -> Option<&'a [u8]> {
    let from = place(address as u64)?;
    // SAFETY:
    // - the caller gave this buffer to this call, or to this task, as one of so many bytes that
    //   nobody writes meanwhile.
    Some(unsafe { std::slice::from_raw_parts(from, count) })
}

/// The same to write.
pub(crate) fn bytes_mut<'a>(address: usize, count: usize) -> Option<&'a mut [u8]> {
    let to = place(address as u64)?;
    // SAFETY:
    // - the caller gave this buffer to this call, or to this task, which alone uses it meanwhile;
    //   buffers of one task do not overlap, which is checked when they are given.
    Some(unsafe { std::slice::from_raw_parts_mut(to, count) })
}

/// A function of the caller's and what it wants to be called with.
#[derive(Clone, Copy)]
pub(crate) struct Callback {
    function: extern "C" fn(*mut c_void),
    data: usize,
}

/// As C gives it.
pub(crate) type Function = Option<extern "C" fn(*mut c_void)>;

impl Callback {
    pub(crate) fn new(function: Function, data: *mut c_void) -> Result<Self> {
        let function = function.ok_or_else(|| null("a function"))?;
        Ok(Self { function, data: data.expose_provenance() })
    }

    pub(crate) fn call(self) {
        (self.function)(std::ptr::with_exposed_provenance_mut(self.data));
    }

    pub(crate) fn address(self) -> usize {
        self.function as usize
    }

    /// As the words of a task.
    pub(crate) fn words(self) -> [u64; 4] {
        [self.address() as u64, self.data as u64, 0, 0]
    }

    /// Of the words of a task that [`Callback::words`] made.
    pub(crate) fn of_words(words: &[u64; 4]) -> Option<Self> {
        let (address, data) = (place(words[0])?, usize::try_from(words[1]).ok()?);
        // SAFETY:
        // - tasks of the function that calls this are made of `words` only, of a function of
        //   this type; the caller keeps it as long as its tasks.
        let function =
            unsafe { std::mem::transmute::<*mut u8, extern "C" fn(*mut c_void)>(address) };
        Some(Self { function, data })
    }
}

#[cfg(test)]
mod tests {
    use super::{answer, answer_or};

    #[test]
    fn a_panic_is_a_code() {
        assert_eq!(answer(|| panic!("on purpose")), 507_000);
        assert_eq!(answer_or(7, || panic!("on purpose")), 7);
        assert_eq!(answer(|| Ok(())), 0);
    }
}
