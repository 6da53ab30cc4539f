//! Element types of tensor payloads.

use executor_core::abi::DataType;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that tensor data can be read and written as: no invalid bit pattern, no padding.
pub trait Element: Copy + Send + Sync + sealed::Sealed + 'static {
    /// What [`crate::Context::alloc`] gives the tensor.
    const DATA_TYPE: DataType;

    /// True when data of this type may be read as `Self`.
    #[must_use]
    fn accepts(data_type: DataType) -> bool;
}

macro_rules! elements {
    ($($ty:ty: $own:ident $(| $other:ident)*;)+) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DATA_TYPE: DataType = DataType::$own;
            fn accepts(data_type: DataType) -> bool {
                matches!(data_type, DataType::$own $(| DataType::$other)*)
            }
        }
    )+};
}

elements! {
    u8: UINT8 | BOOL | QUINT8;
    i8: INT8 | QINT8;
    u16: UINT16 | QUINT16 | FLOAT16 | BF16;
    i16: INT16 | QINT16;
    u32: UINT32;
    i32: INT32 | QINT32;
    u64: UINT64;
    i64: INT64;
    f32: FLOAT;
    f64: DOUBLE;
}
