//! Element types: what a kernel can do with one, and calling a kernel by a tensor's type.

use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::DataType;
use crate::cast::Plain;
use crate::half::{Bf16, F16};

/// An element type with arithmetic; whole numbers wrap around, as the oracle's do.
pub trait Element: Plain + PartialOrd + fmt::Debug {
    /// Its number; `UNDEFINED` for one that no tensor has.
    const TYPE: DataType;
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// No value is below it.
    const LOWEST: Self;
    /// No value is above it.
    const HIGHEST: Self;
    /// The sum.
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// The difference.
    #[must_use]
    fn minus(self, other: Self) -> Self;
    /// The product.
    #[must_use]
    fn times(self, other: Self) -> Self;
    /// The quotient; of whole numbers without the rest, and 0 by 0.
    #[must_use]
    fn over(self, other: Self) -> Self;
    /// What is left of a division; with the divisor's sign (`floor`) or the dividend's.
    #[must_use]
    fn rest(self, other: Self, floor: bool) -> Self;
    /// The nearest value of a float; of whole numbers without a fraction, and not beyond the ends.
    #[must_use]
    fn of_f64(value: f64) -> Self;
    /// The value, or the nearest float.
    #[must_use]
    fn to_f64(self) -> f64;
    /// The value as a whole number without a fraction.
    #[must_use]
    fn to_i64(self) -> i64;
    /// The lowest bits of a whole number, or the nearest float.
    #[must_use]
    fn of_i64(value: i64) -> Self;
}

macro_rules! whole {
    ($($name:ty = $number:ident;)+) => {
        $(#[allow(clippy::cast_lossless, clippy::cast_possible_truncation, reason = "meant")]
        #[allow(clippy::cast_sign_loss, reason = "as documented")]
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_wrap, reason = "as documented")]
        impl Element for $name {
            const TYPE: DataType = DataType::$number;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LOWEST: Self = <$name>::MIN;
            const HIGHEST: Self = <$name>::MAX;
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn over(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "some are never negative")]
            fn rest(self, other: Self, floor: bool) -> Self {
                if other == 0 {
                    return 0;
                }
                let rest = self.wrapping_rem(other);
                let corrected = floor && rest != 0 && (rest < 0) != (other < 0);
                if corrected { rest.wrapping_add(other) } else { rest }
            }
            #[inline(always)]
            fn of_f64(value: f64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn of_i64(value: i64) -> Self {
                value as Self
            }
        })+
    };
}
whole! {
    i8 = INT8; i16 = INT16; i32 = INT32; i64 = INT64;
    u8 = UINT8; u16 = UINT16; u32 = UINT32; u64 = UINT64; i128 = UNDEFINED;
}

macro_rules! float {
    ($($name:ty = $number:ident, $real:ty, $zero:expr, $one:expr, $low:expr, $high:expr,
       |$from:ident| $of:expr, |$to:ident| $into:expr;)+) => {
        $(#[allow(clippy::cast_lossless, clippy::cast_possible_truncation, reason = "meant")]
        #[allow(clippy::cast_precision_loss, reason = "the nearest value is meant")]
        impl Element for $name {
            const TYPE: DataType = DataType::$number;
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            const LOWEST: Self = $low;
            const HIGHEST: Self = $high;
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                Self::of_real(self.real() + other.real())
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                Self::of_real(self.real() - other.real())
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                Self::of_real(self.real() * other.real())
            }
            #[inline(always)]
            fn over(self, other: Self) -> Self {
                Self::of_real(self.real() / other.real())
            }
            #[inline(always)]
            fn rest(self, other: Self, floor: bool) -> Self {
                let rest = self.real() % other.real();
                let corrected = floor && rest != 0.0 && (rest < 0.0) != (other.real() < 0.0);
                Self::of_real(if corrected { rest + other.real() } else { rest })
            }
            #[inline(always)]
            fn of_f64(value: f64) -> Self {
                Self::of_real(value as $real)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.real() as f64
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                self.real() as i64
            }
            #[inline(always)]
            fn of_i64(value: i64) -> Self {
                Self::of_real(value as $real)
            }
        }
        impl Float for $name {
            type Real = $real;
            #[inline(always)]
            fn of_real($from: $real) -> Self {
                $of
            }
            #[inline(always)]
            fn real(self) -> $real {
                let $to = self;
                $into
            }
        })+
    };
}
float! {
    f32 = FLOAT, f32, 0.0, 1.0, f32::NEG_INFINITY, f32::INFINITY, |x| x, |x| x;
    f64 = DOUBLE, f64, 0.0, 1.0, f64::NEG_INFINITY, f64::INFINITY, |x| x, |x| x;
    F16 = FLOAT16, f32, F16(0), F16(0x3c00), F16(0xfc00), F16(0x7c00),
        |x| F16::from_f32(x), |x| x.to_f32();
    Bf16 = BF16, f32, Bf16(0), Bf16(0x3f80), Bf16(0xff80), Bf16(0x7f80),
        |x| Bf16::from_f32(x), |x| x.to_f32();
}

/// An element type that stands for real numbers.
pub trait Float: Element {
    /// The type that it is computed with.
    type Real: Real;
    /// The nearest value.
    #[must_use]
    fn of_real(value: Self::Real) -> Self;
    /// The same value.
    #[must_use]
    fn real(self) -> Self::Real;
}

/// Functions of one real number that the standard library has, by its names.
macro_rules! real_functions {
    (declare) => { real_functions!(@declare abs sqrt exp exp_m1 ln ln_1p sin cos tan asin acos atan
        sinh cosh tanh asinh acosh atanh floor ceil round_ties_even); };
    (define $name:ty) => { real_functions!(@define $name, abs sqrt exp exp_m1 ln ln_1p sin cos tan
        asin acos atan sinh cosh tanh asinh acosh atanh floor ceil round_ties_even); };
    (@declare $($function:ident)+) => {
        $(#[doc = concat!("As `f32::", stringify!($function), "`.")]
        #[must_use]
        fn $function(self) -> Self;)+
    };
    (@define $name:ty, $($function:ident)+) => {
        $(#[inline(always)]
        fn $function(self) -> Self {
            <$name>::$function(self)
        })+
    };
}
/// `f32` or `f64`, for kernels that are written once.
pub trait Real:
    Float<Real = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// A constant.
    #[must_use]
    fn c(value: f64) -> Self;
    /// x to the power of y.
    #[must_use]
    fn powf(self, power: Self) -> Self;
    /// The lower of two; a NaN stays one.
    #[inline(always)]
    #[must_use]
    fn least(self, other: Self) -> Self {
        if other < self || other.is_nan() { other } else { self }
    }
    /// The higher of two; a NaN stays one.
    #[inline(always)]
    #[must_use]
    fn most(self, other: Self) -> Self {
        if other > self || other.is_nan() { other } else { self }
    }
    /// Whether it is no number.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::eq_op, reason = "that is how")]
    fn is_nan(self) -> bool {
        self != self
    }
    real_functions!(declare);
}

#[expect(clippy::cast_possible_truncation, reason = "constants, to the type's precision")]
impl Real for f32 {
    #[inline(always)]
    fn c(value: f64) -> Self {
        value as Self
    }
    #[inline(always)]
    fn powf(self, power: Self) -> Self {
        Self::powf(self, power)
    }
    real_functions!(define f32);
}

impl Real for f64 {
    #[inline(always)]
    fn c(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn powf(self, power: Self) -> Self {
        Self::powf(self, power)
    }
    real_functions!(define f64);
}

/// Whether it is a type of floats.
pub(crate) fn is_float(dtype: DataType) -> bool {
    matches!(dtype, DataType::FLOAT | DataType::DOUBLE | DataType::FLOAT16 | DataType::BF16)
}

/// Calls `$body` with `$T` as the type among `$name = $type` that has the number `$dtype`.
macro_rules! with_type {
    ($dtype:expr, $T:ident => $body:expr, $($number:ident = $name:ty),+) => {
        match $dtype {
            $($crate::DataType::$number => {
                type $T = $name;
                $body
            })+
            other => Err($crate::tensor::Fault::Type(other)),
        }
    };
}
pub(crate) use with_type;

/// Calls `$body` with `$T` as the element type of `$dtype`, which has arithmetic.
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::element::with_type!($dtype, $T => $body, FLOAT = f32, INT32 = i32, INT64 = i64,
            DOUBLE = f64, FLOAT16 = $crate::half::F16, BF16 = $crate::half::Bf16, INT8 = i8,
            INT16 = i16, UINT8 = u8, UINT16 = u16, UINT32 = u32, UINT64 = u64)
    };
}
pub(crate) use with_element;

/// Calls `$body` with `$T` as an unsigned type of as many bytes as an element of `$dtype` has.
macro_rules! with_bits {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $crate::tensor::element_size($dtype) {
            Some(1) => {
                type $T = u8;
                $body
            }
            Some(2) => {
                type $T = u16;
                $body
            }
            Some(4) => {
                type $T = u32;
                $body
            }
            Some(8) => {
                type $T = u64;
                $body
            }
            _ => Err($crate::tensor::Fault::Type($dtype)),
        }
    };
}
pub(crate) use with_bits;
