//! Attributes of a node, by type: [`Attr`] is what [`crate::InitContext::attr`] can return.
#![allow(unsafe_code, reason = "reads attribute memory of the executor; a permitted file")]

use crate::abi::{AttrV1, IntsV1, StrV1, kind};
use executor_core::abi::DataType;

mod sealed {
    pub trait Sealed {}
}

/// A type that an attribute can be read as, udf §1.5. Lists borrow the executor's memory, which
/// lives as long as the instance.
pub trait Attr<'c>: Sized + sealed::Sealed {
    /// Number of the kind in the ABI.
    #[doc(hidden)]
    const KIND: u32;

    /// # Safety
    /// `raw` is the answer of `get_attr` for `KIND`, valid for `'c` (abi I1).
    #[doc(hidden)]
    unsafe fn from_raw(raw: AttrV1) -> Option<Self>;
}

/// # Safety
/// `raw.data` is valid for `raw.count` values of `T` for `'c`, aligned, or null with a zero count.
unsafe fn values<'c, T>(raw: AttrV1) -> Option<&'c [T]> {
    let count = usize::try_from(raw.count).ok()?;
    if raw.data.is_null() || count == 0 {
        return Some(&[]);
    }
    // SAFETY: the caller's obligation.
    Some(unsafe { core::slice::from_raw_parts(raw.data.cast::<T>(), count) })
}

/// # Safety
/// `text` is valid for `'c`.
unsafe fn text<'c>(text: &StrV1) -> Option<&'c str> {
    let raw = AttrV1 { data: text.ptr.cast(), count: text.len };
    // SAFETY: the caller's obligation; `u8` is always aligned.
    core::str::from_utf8(unsafe { values(raw) }?).ok()
}

macro_rules! scalar {
    ($($ty:ty: $kind:ident, $raw:ty, $convert:expr;)+) => {$(
        impl sealed::Sealed for $ty {}
        impl<'c> Attr<'c> for $ty {
            const KIND: u32 = kind::$kind;
            unsafe fn from_raw(raw: AttrV1) -> Option<Self> {
                // SAFETY: the caller's obligation for this kind.
                let value: $raw = *unsafe { values::<$raw>(raw) }?.first()?;
                Some($convert(value))
            }
        }
    )+};
}

scalar! {
    i64: INT, i64, core::convert::identity;
    f32: FLOAT, f32, core::convert::identity;
    bool: BOOL, u8, |value| value != 0;
    DataType: DATA_TYPE, i32, DataType;
}

macro_rules! list {
    ($($ty:ty: $kind:ident;)+) => {$(
        impl sealed::Sealed for &[$ty] {}
        impl<'c> Attr<'c> for &'c [$ty] {
            const KIND: u32 = kind::$kind;
            unsafe fn from_raw(raw: AttrV1) -> Option<Self> {
                // SAFETY: the caller's obligation; `DataType` is transparent over i32.
                unsafe { values(raw) }
            }
        }
    )+};
}

list! {
    i64: INT_LIST;
    f32: FLOAT_LIST;
    DataType: DATA_TYPE_LIST;
}

impl sealed::Sealed for &str {}
impl<'c> Attr<'c> for &'c str {
    const KIND: u32 = kind::STR;
    unsafe fn from_raw(raw: AttrV1) -> Option<Self> {
        // SAFETY: the caller's obligation for STR.
        let value = unsafe { values::<StrV1>(raw) }?.first()?;
        // SAFETY: the same, for the text it names.
        unsafe { text(value) }
    }
}

macro_rules! view {
    ($(#[doc = $doc:literal])+ $name:ident, $kind:ident, $raw:ty, $item:ty, $get:expr) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy)]
        pub struct $name<'c>(&'c [$raw]);
        impl<'c> $name<'c> {
            /// The values in order; text that is no UTF-8 shows as empty.
            pub fn iter(self) -> impl ExactSizeIterator<Item = $item> {
                self.0.iter().map($get)
            }
            /// How many values there are.
            #[must_use]
            pub fn len(self) -> usize {
                self.0.len()
            }
            /// True without values.
            #[must_use]
            pub fn is_empty(self) -> bool {
                self.0.is_empty()
            }
        }
        impl sealed::Sealed for $name<'_> {}
        impl<'c> Attr<'c> for $name<'c> {
            const KIND: u32 = kind::$kind;
            unsafe fn from_raw(raw: AttrV1) -> Option<Self> {
                // SAFETY: the caller's obligation for this kind.
                unsafe { values(raw) }.map($name)
            }
        }
    };
}

view! {
    /// A list of texts.
    Strs, STR_LIST, StrV1, &'c str,
    // SAFETY: made in `from_raw` only, whose caller vouches for the texts for 'c.
    |value| unsafe { text(value) }.unwrap_or_default()
}
view! {
    /// A list of booleans.
    Bools, BOOL_LIST, u8, bool, |value| *value != 0
}
view! {
    /// A list of lists of integers.
    IntLists, INT_LIST_LIST, IntsV1, &'c [i64],
    |list| {
        // SAFETY: made in `from_raw` only, whose caller vouches for the lists for 'c.
        unsafe { values(AttrV1 { data: list.ptr.cast(), count: list.len }) }.unwrap_or_default()
    }
}
