//! `TensorDataType` (udf §1.2): values, names and sizes.

/// Element type of a tensor; a newtype, unknown values are values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct DataType(pub i32);

macro_rules! types {
    ($($name:ident = $value:literal, $bits:literal, $text:literal;)+) => {
        impl DataType {
            $(#[doc = concat!("`", $text, "`, ", stringify!($bits), " bits an element.")]
              pub const $name: DataType = DataType($value);)+
            /// Every known type: value, bits an element, name.
            pub const ALL: &'static [(DataType, u32, &'static str)] =
                &[$((DataType::$name, $bits, $text)),+];
        }
    };
}

types! {
    FLOAT = 0, 32, "float32";
    FLOAT16 = 1, 16, "float16";
    INT8 = 2, 8, "int8";
    INT32 = 3, 32, "int32";
    UINT8 = 4, 8, "uint8";
    INT16 = 6, 16, "int16";
    UINT16 = 7, 16, "uint16";
    UINT32 = 8, 32, "uint32";
    INT64 = 9, 64, "int64";
    UINT64 = 10, 64, "uint64";
    DOUBLE = 11, 64, "float64";
    BOOL = 12, 8, "bool";
    QINT8 = 18, 8, "qint8";
    QINT16 = 19, 16, "qint16";
    QINT32 = 20, 32, "qint32";
    QUINT8 = 21, 8, "quint8";
    QUINT16 = 22, 16, "quint16";
    DUAL = 25, 40, "dual";
    BF16 = 27, 16, "bfloat16";
    INT4 = 29, 4, "int4";
    UINT1 = 30, 1, "uint1";
    INT2 = 31, 2, "int2";
    UINT2 = 32, 2, "uint2";
}

impl DataType {
    /// `DT_UNDEFINED`.
    pub const UNDEFINED: DataType = DataType(33);

    /// Bits of one element; `None` for unknown types.
    #[must_use]
    pub fn bits(self) -> Option<u32> {
        Self::ALL.iter().find(|(t, ..)| *t == self).map(|(_, bits, _)| *bits)
    }

    /// Name as used in graph files; `None` for unknown types.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Self::ALL.iter().find(|(t, ..)| *t == self).map(|(.., name)| *name)
    }

    /// The type of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(.., n)| *n == name).map(|(t, ..)| *t)
    }

    /// Product of `dims` (1 for a scalar); `None` for a negative dim or on i64 overflow.
    #[must_use]
    pub fn element_count(dims: &[i64]) -> Option<u64> {
        if dims.contains(&0) && dims.iter().all(|d| *d >= 0) {
            return Some(0);
        }
        let count =
            dims.iter().try_fold(
                1i64,
                |product, dim| {
                    if *dim < 0 { None } else { product.checked_mul(*dim) }
                },
            )?;
        u64::try_from(count).ok()
    }

    /// Bytes of a tensor of this type: ceil(count × bits / 8); `None` for unknown types, a negative
    /// dim or overflow of i64 (udf §7.2 case 1).
    #[must_use]
    pub fn byte_size(self, dims: &[i64]) -> Option<u64> {
        let bits = u64::from(self.bits()?);
        let count = Self::element_count(dims)?;
        let bytes = count.checked_mul(bits)?.div_ceil(8);
        i64::try_from(bytes).ok()?;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::DataType;

    #[test]
    fn sizes_of_udf_7_2_case_1() {
        let big = (1i64 << 32) - 1;
        assert_eq!(DataType::UNDEFINED.byte_size(&[]), None);
        assert_eq!(DataType::FLOAT.byte_size(&[2, -1, 3]), None);
        assert_eq!(DataType::FLOAT.byte_size(&[big, big, big]), None);
        assert_eq!(DataType::FLOAT.byte_size(&[big, big / 2]), None);
        assert_eq!(DataType::FLOAT.byte_size(&[100, 200]), Some(80_000));
        assert_eq!(DataType::UINT2.byte_size(&[100, 200]), Some(5000));
        assert_eq!(DataType::UINT1.byte_size(&[2]), Some(1));
        assert_eq!(DataType::FLOAT.byte_size(&[]), Some(4));
        assert_eq!(DataType::DUAL.byte_size(&[2]), Some(10));
        assert_eq!(DataType::from_name("uint8"), Some(DataType::UINT8));
    }
}
