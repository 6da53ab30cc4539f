//! Floats of 16 bits: how they are stored. Arithmetic is that of `f32`, rounded after each step.

pub(crate) mod convert;

use std::cmp::Ordering;

/// IEEE 754's binary16: 5 bits of exponent, 10 of fraction.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct F16(pub u16);

/// The upper half of a binary32: 8 bits of exponent, 7 of fraction.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Bf16(pub u16);

impl F16 {
    /// The nearest value, to even from the middle; too large a one is infinite.
    #[inline]
    #[must_use]
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let (sign, magnitude) = (low(bits >> 16) & 0x8000, bits & 0x7fff_ffff);
        if magnitude > 0x7f80_0000 {
            // A quiet NaN, with the upper bits of the fraction: as machines have it.
            return Self(sign | 0x7e00 | low(magnitude >> 13) & 0x3ff);
        }
        // Infinite, or so large that the nearest value is.
        if magnitude >= 0x477f_f000 {
            return Self(sign | 0x7c00);
        }
        if magnitude < 0x3880_0000 {
            // Below the normal ones: adding 0.5 leaves the fraction in the lowest bits, rounded.
            let sum = (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits();
            return Self(sign | low(sum));
        }
        let odd = magnitude >> 13 & 1;
        Self(sign | low((magnitude - 0x3800_0000 + 0xfff + odd) >> 13))
    }

    /// The same value.
    #[inline]
    #[must_use]
    pub fn to_f32(self) -> f32 {
        let (sign, magnitude) = (u32::from(self.0 & 0x8000) << 16, u32::from(self.0 & 0x7fff));
        let bits = match magnitude {
            0..0x400 => {
                let fraction = f32::from(self.0 & 0x7fff);
                (fraction * f32::from_bits(0x3380_0000)).to_bits()
            }
            0x7c00 => 0x7f80_0000,
            0x7c01.. => magnitude << 13 | 0x7fc0_0000,
            _ => (magnitude << 13) + 0x3800_0000,
        };
        f32::from_bits(sign | bits)
    }
}

impl Bf16 {
    /// The nearest value, to even from the middle.
    #[inline]
    #[must_use]
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        if value.is_nan() {
            return Self(low(bits >> 16) | 0x40);
        }
        Self(low((bits + 0x7fff + (bits >> 16 & 1)) >> 16))
    }

    /// The same value.
    #[inline]
    #[must_use]
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

/// The lower 16 bits.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "that is what is meant")]
fn low(bits: u32) -> u16 {
    bits as u16
}

macro_rules! compares {
    ($($name:ident),+) => {
        $(impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }
        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        })+
    };
}
compares!(F16, Bf16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (F16(bits), Bf16(bits));
            if half.to_f32().is_nan() {
                assert!(F16::from_f32(half.to_f32()).to_f32().is_nan());
            } else {
                assert_eq!(F16::from_f32(half.to_f32()).0, bits);
            }
            if !brain.to_f32().is_nan() {
                assert_eq!(Bf16::from_f32(brain.to_f32()).0, bits);
            }
        }
    }

    #[test]
    fn known_values_and_rounding() {
        assert_eq!(F16(0x3c01).to_f32(), 1.0 + 1.0 / 1024.0);
        assert_eq!(F16(1).to_f32(), 1.0 / 16_777_216.0);
        assert_eq!(F16::from_f32(65_504.0).0, 0x7bff);
        assert_eq!(F16::from_f32(65_519.9).0, 0x7bff);
        assert_eq!(F16::from_f32(65_520.0).0, 0x7c00);
        assert_eq!(F16::from_f32(-f32::INFINITY).0, 0xfc00);
        // The middle between 1 and the next value, and between that and the one after it.
        assert_eq!(F16::from_f32(1.0 + 1.0 / 2048.0).0, 0x3c00);
        assert_eq!(F16::from_f32(1.0 + 3.0 / 2048.0).0, 0x3c02);
        assert_eq!(F16::from_f32(1.0 / 33_554_432.0).0, 0, "half of the least");
        assert_eq!(Bf16::from_f32(1.0).0, 0x3f80);
        assert_eq!(Bf16::from_f32(1.0 + 1.0 / 256.0).0, 0x3f80);
        assert_eq!(Bf16::from_f32(1.0 + 3.0 / 256.0).0, 0x3f82);
        assert_eq!(Bf16::from_f32(f32::MAX).0, 0x7f80);
    }
}
