//! Lists of element types, as the definitions of ops have them: which, and the opset since which.

use crate::DataType;
pub(super) use crate::element::is_float;

/// A list of types; the number is the first opset with it.
pub(super) type Types = &'static [(DataType, u32)];

/// Every type, from the first definition on.
pub(super) const ALL: Types = &all(1);

/// Every type: float32, float64 and float16 from the first definition on.
pub(super) const fn all(others: u32) -> [(DataType, u32); 13] {
    let later = if others > 13 { others } else { 13 };
    [
        (DataType::FLOAT, 1),
        (DataType::DOUBLE, 1),
        (DataType::FLOAT16, 1),
        (DataType::BF16, later),
        (DataType::INT8, others),
        (DataType::INT16, others),
        (DataType::INT32, others),
        (DataType::INT64, others),
        (DataType::UINT8, others),
        (DataType::UINT16, others),
        (DataType::UINT32, others),
        (DataType::UINT64, others),
        (DataType::BOOL, others),
    ]
}

/// Floats of 16 bits; bfloat16 came later.
pub(super) const fn halves(brain: u32) -> [(DataType, u32); 2] {
    [(DataType::FLOAT16, 1), (DataType::BF16, brain)]
}

/// Floats; bfloat16 came later.
pub(super) const fn floats(brain: u32) -> [(DataType, u32); 4] {
    [(DataType::FLOAT, 1), (DataType::DOUBLE, 1), (DataType::FLOAT16, 1), (DataType::BF16, brain)]
}

/// Floats and whole numbers; those of 32 and 64 bits came later, those of 8 and 16 still later.
pub(super) const fn numbers(whole: u32, small: u32, brain: u32) -> [(DataType, u32); 12] {
    [
        (DataType::FLOAT, 1),
        (DataType::DOUBLE, 1),
        (DataType::FLOAT16, 1),
        (DataType::BF16, brain),
        (DataType::INT32, whole),
        (DataType::INT64, whole),
        (DataType::UINT32, whole),
        (DataType::UINT64, whole),
        (DataType::INT8, small),
        (DataType::INT16, small),
        (DataType::UINT8, small),
        (DataType::UINT16, small),
    ]
}

/// Types of indices.
pub(super) const INDICES: &[DataType] = &[DataType::INT32, DataType::INT64];

/// Floats and whole numbers with a sign, which came later.
pub(super) const fn signed(whole: u32, brain: u32) -> [(DataType, u32); 8] {
    [
        (DataType::FLOAT, 1),
        (DataType::DOUBLE, 1),
        (DataType::FLOAT16, 1),
        (DataType::BF16, brain),
        (DataType::INT32, whole),
        (DataType::INT64, whole),
        (DataType::INT8, whole),
        (DataType::INT16, whole),
    ]
}

/// Floats and whole numbers of 32 and 64 bits, which came later.
pub(super) const fn whole(whole: u32, brain: u32) -> [(DataType, u32); 8] {
    [
        (DataType::FLOAT, 1),
        (DataType::DOUBLE, 1),
        (DataType::FLOAT16, 1),
        (DataType::BF16, brain),
        (DataType::INT32, whole),
        (DataType::INT64, whole),
        (DataType::UINT32, whole),
        (DataType::UINT64, whole),
    ]
}

/// What can be raised to a power.
pub(super) const fn powers(whole: u32, brain: u32) -> [(DataType, u32); 6] {
    [
        (DataType::FLOAT, 1),
        (DataType::DOUBLE, 1),
        (DataType::FLOAT16, 1),
        (DataType::BF16, brain),
        (DataType::INT32, whole),
        (DataType::INT64, whole),
    ]
}

/// What can be equal: bools and some whole numbers at first.
pub(super) const fn equal(others: u32, brain: u32) -> [(DataType, u32); 13] {
    [
        (DataType::BOOL, 1),
        (DataType::INT32, 1),
        (DataType::INT64, 1),
        (DataType::FLOAT, others),
        (DataType::DOUBLE, others),
        (DataType::FLOAT16, others),
        (DataType::BF16, brain),
        (DataType::INT8, others),
        (DataType::INT16, others),
        (DataType::UINT8, others),
        (DataType::UINT16, others),
        (DataType::UINT32, others),
        (DataType::UINT64, others),
    ]
}

/// Whole numbers.
pub(super) const INTEGERS: [(DataType, u32); 8] = unsigned_first(1);

/// Whole numbers; those with a sign came later.
pub(super) const fn unsigned_first(signed: u32) -> [(DataType, u32); 8] {
    [
        (DataType::UINT8, 1),
        (DataType::UINT16, 1),
        (DataType::UINT32, 1),
        (DataType::UINT64, 1),
        (DataType::INT8, signed),
        (DataType::INT16, signed),
        (DataType::INT32, signed),
        (DataType::INT64, signed),
    ]
}

/// What has an order: 32 and 64 bits at first, then 8, then bools.
pub(super) const fn ordered(small: u32, brain: u32, bools: u32) -> [(DataType, u32); 11] {
    [
        (DataType::FLOAT, 1),
        (DataType::DOUBLE, 1),
        (DataType::FLOAT16, 1),
        (DataType::BF16, brain),
        (DataType::INT32, 1),
        (DataType::INT64, 1),
        (DataType::UINT32, 1),
        (DataType::UINT64, 1),
        (DataType::INT8, small),
        (DataType::UINT8, small),
        (DataType::BOOL, bools),
    ]
}
