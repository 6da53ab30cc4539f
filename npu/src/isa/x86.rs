//! The vectors of AVX2 with FMA (two registers each) and of AVX-512 (one each), and with VNNI:
//! instructions that multiply pairs or fours and add to sums at once.
#![allow(unsafe_code, reason = "instructions of an ISA, behind a token that it is there")]

use std::arch::x86_64::{
    __m256, __m256i, __m512, __m512i, __mmask16, _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128,
    _mm_storeu_si128, _mm256_add_epi32, _mm256_add_ps, _mm256_and_si256, _mm256_castps_si256,
    _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmpgt_epi32, _mm256_cvtepi32_ps,
    _mm256_cvtph_ps, _mm256_cvtps_epi32, _mm256_cvtps_ph, _mm256_div_ps, _mm256_dpbusd_avx_epi32,
    _mm256_dpwssd_avx_epi32, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_loadu_si256,
    _mm256_madd_epi16, _mm256_maskload_ps, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps,
    _mm256_packs_epi32, _mm256_packus_epi16, _mm256_permutevar8x32_epi32, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_set1_ps, _mm256_setr_epi32, _mm256_slli_epi32, _mm256_storeu_ps,
    _mm256_storeu_si256, _mm256_sub_ps, _mm512_add_epi32, _mm512_add_ps, _mm512_castps_si512,
    _mm512_castsi512_ps, _mm512_cvtepi32_epi8, _mm512_cvtepi32_ps, _mm512_cvtph_ps,
    _mm512_cvtps_epi32, _mm512_cvtps_ph, _mm512_div_ps, _mm512_dpbusd_epi32, _mm512_dpwssd_epi32,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_madd_epi16, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_set1_epi32,
    _mm512_set1_ps, _mm512_slli_epi32, _mm512_storeu_ps, _mm512_storeu_si512, _mm512_sub_ps,
};

use super::simd::{self, LANES, Simd};
use crate::half::F16;

/// AVX-512 F, BW, DQ and VL are there; with `VNNI`, AVX512-VNNI too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512<const VNNI: bool>(());

impl<const VNNI: bool> Avx512<VNNI> {
    /// # Safety
    /// This machine has AVX-512 F, BW, DQ and VL; with `VNNI`, AVX512-VNNI too.
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

/// AVX2, FMA and F16C are there; with `VNNI`, AVX-VNNI too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2<const VNNI: bool>(());

impl<const VNNI: bool> Avx2<VNNI> {
    /// # Safety
    /// This machine has AVX2, FMA and F16C; with `VNNI`, AVX-VNNI too.
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

/// 1.5 * 2^23, whose low bits count in ones, and the bias of an exponent.
const BIASED: f32 = 12_582_912.0 + 127.0;

/// To the nearest, to even from the middle.
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

/// A mask of the first floats, as many as `count` says.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    if count >= LANES { __mmask16::MAX } else { (1 << count) - 1 }
}

impl<const VNNI: bool> Simd for Avx512<VNNI> {
    type V = __m512;
    type I = __m512i;
    const REGISTERS: usize = 32;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        // SAFETY: `self` is there only where AVX-512 is.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::V {
        // SAFETY: `self` is there only where AVX-512 is; 16 floats are read, from any address.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn load_part(self, from: &[f32]) -> Self::V {
        // SAFETY: as for `load`; the mask ends where the slice does.
        unsafe { _mm512_maskz_loadu_ps(first(from.len()), from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; LANES]) {
        // SAFETY: `self` is there only where AVX-512 is; 16 floats are written, to any address.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), v) }
    }

    #[inline(always)]
    fn store_part(self, v: Self::V, to: &mut [f32]) {
        // SAFETY: as for `store`; the mask ends where the slice does.
        unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), first(to.len()), v) }
    }

    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` is there only where AVX-512 is.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` is there only where AVX-512 is.
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` is there only where AVX-512 is.
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // SAFETY: `self` is there only where AVX-512 is.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` is there only where AVX-512 is.
        unsafe { _mm512_div_ps(a, b) }
    }

    #[inline(always)]
    fn pow2(self, n: Self::V) -> Self::V {
        // What is added puts the number with the exponent's bias into the low bits.
        let n = self.add(n, self.splat(BIASED));
        // SAFETY: `self` is there only where AVX-512 is.
        let bits = unsafe { _mm512_castps_si512(n) };
        // SAFETY: as above.
        let bits = unsafe { _mm512_slli_epi32::<23>(bits) };
        // SAFETY: as above.
        unsafe { _mm512_castsi512_ps(bits) }
    }

    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` is there only where AVX-512 is.
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        // SAFETY: `self` is there only where AVX-512 is.
        unsafe { _mm512_min_ps(a, b) }
    }

    #[inline(always)]
    fn whole(self, from: &[i32; LANES]) -> Self::I {
        // SAFETY: `self` is there only where AVX-512 is; 64 bytes are read, from any address.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_whole(self, v: Self::I, to: &mut [i32; LANES]) {
        // SAFETY: `self` is there only where AVX-512 is; 64 bytes are written, to any address.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), v) }
    }

    #[inline(always)]
    fn word(self, of: i32) -> Self::I {
        // SAFETY: `self` is there only where AVX-512 is.
        unsafe { _mm512_set1_epi32(of) }
    }

    #[inline(always)]
    fn dot(self, a: Self::I, b: Self::I, sums: Self::I) -> Self::I {
        if VNNI {
            // SAFETY: `self` with `VNNI` is there only where AVX512-VNNI is.
            return unsafe { _mm512_dpwssd_epi32(sums, a, b) };
        }
        // SAFETY: `self` is there only where AVX-512 with BW is.
        let products = unsafe { _mm512_madd_epi16(a, b) };
        // SAFETY: as above.
        unsafe { _mm512_add_epi32(sums, products) }
    }

    #[inline(always)]
    fn dot_fours(self, a: Self::I, b: Self::I, sums: Self::I) -> Self::I {
        if VNNI {
            // SAFETY: `self` with `VNNI` is there only where AVX512-VNNI is.
            return unsafe { _mm512_dpbusd_epi32(sums, a, b) };
        }
        simd::dot_fours(self, a, b, sums)
    }

    #[inline(always)]
    fn floats(self, v: Self::I) -> Self::V {
        // SAFETY: `self` is there only where AVX-512 is.
        unsafe { _mm512_cvtepi32_ps(v) }
    }

    #[inline(always)]
    fn round(self, v: Self::V, add: i32) -> Self::I {
        // SAFETY: `self` is there only where AVX-512 is.
        let own = unsafe { _mm512_cvtps_epi32(v) };
        // SAFETY: as above.
        unsafe { _mm512_add_epi32(own, self.word(add)) }
    }

    #[inline(always)]
    fn halves(self, from: &[F16; LANES]) -> Self::V {
        // SAFETY: `self` is there only where AVX-512 is; 32 bytes are read, from any address.
        let own = unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
        // SAFETY: as above.
        unsafe { _mm512_cvtph_ps(own) }
    }

    #[inline(always)]
    fn store_halves(self, v: Self::V, to: &mut [F16; LANES]) {
        // SAFETY: `self` is there only where AVX-512 is.
        let own = unsafe { _mm512_cvtps_ph::<NEAREST>(v) };
        // SAFETY: as above; 32 bytes are written, to any address.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), own) };
    }

    #[inline(always)]
    fn store_bytes(self, v: Self::I, to: &mut [u8; LANES]) {
        // SAFETY: `self` is there only where AVX-512 is.
        let own = unsafe { _mm512_cvtepi32_epi8(v) };
        // SAFETY: as above; 16 bytes are written, to any address.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), own) }
    }
}

/// Eight floats of `from`, from `at` on.
#[inline(always)]
fn half<const VNNI: bool>(_: Avx2<VNNI>, from: &[f32; LANES], at: usize) -> __m256 {
    let half: &[f32] = &from[at..at + LANES / 2];
    // SAFETY: the token is there only where AVX2 is; the slice has the 8 floats that are read.
    unsafe { _mm256_loadu_ps(half.as_ptr()) }
}

/// At most eight floats of `from`, zeros behind them.
#[inline(always)]
fn half_part<const VNNI: bool>(own: Avx2<VNNI>, from: &[f32]) -> __m256 {
    // SAFETY: the mask of `before` ends where the slice does; the token says that AVX2 is there.
    unsafe { _mm256_maskload_ps(from.as_ptr(), before(own, from.len())) }
}

/// All bits in the first lanes, as many as `count` says.
#[inline(always)]
fn before<const VNNI: bool>(_: Avx2<VNNI>, count: usize) -> __m256i {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    // SAFETY: the token is there only where AVX2 is.
    let counts = unsafe { _mm256_set1_epi32(count) };
    // SAFETY: as above.
    let lanes = unsafe { _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7) };
    // SAFETY: as above.
    unsafe { _mm256_cmpgt_epi32(counts, lanes) }
}

/// The bits of eight floats, moved into the exponent.
#[inline(always)]
fn shifted<const VNNI: bool>(_: Avx2<VNNI>, half: __m256) -> __m256 {
    // SAFETY: the token is there only where AVX2 is.
    let bits = unsafe { _mm256_castps_si256(half) };
    // SAFETY: as above.
    let bits = unsafe { _mm256_slli_epi32::<23>(bits) };
    // SAFETY: as above.
    unsafe { _mm256_castsi256_ps(bits) }
}

/// Applies an instruction to both halves.
macro_rules! halves {
    ($instruction:ident($($operand:ident),+)) => {{
        // SAFETY: `self` is there only where AVX2 is.
        let low = unsafe { $instruction($($operand.0),+) };
        // SAFETY: as above.
        let high = unsafe { $instruction($($operand.1),+) };
        (low, high)
    }};
}

impl<const VNNI: bool> Simd for Avx2<VNNI> {
    type V = (__m256, __m256);
    type I = (__m256i, __m256i);
    const REGISTERS: usize = 8;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        // SAFETY: `self` is there only where AVX2 is.
        let half = unsafe { _mm256_set1_ps(x) };
        (half, half)
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::V {
        (half(self, from, 0), half(self, from, LANES / 2))
    }

    #[inline(always)]
    fn load_part(self, from: &[f32]) -> Self::V {
        let (low, high) = from.split_at(from.len().min(LANES / 2));
        (half_part(self, low), half_part(self, high))
    }

    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; LANES]) {
        let (low, high) = to.split_at_mut(LANES / 2);
        // SAFETY: `self` is there only where AVX2 is; each half has the 8 floats that are written.
        unsafe { _mm256_storeu_ps(low.as_mut_ptr(), v.0) };
        // SAFETY: as above.
        unsafe { _mm256_storeu_ps(high.as_mut_ptr(), v.1) };
    }

    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_mul_ps(a, b))
    }

    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        halves!(_mm256_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_div_ps(a, b))
    }

    #[inline(always)]
    fn pow2(self, n: Self::V) -> Self::V {
        let n = self.add(n, self.splat(BIASED));
        (shifted(self, n.0), shifted(self, n.1))
    }

    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_max_ps(a, b))
    }

    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        halves!(_mm256_min_ps(a, b))
    }

    #[inline(always)]
    fn whole(self, from: &[i32; LANES]) -> Self::I {
        let (low, high) = from.split_at(LANES / 2);
        // SAFETY: `self` is there only where AVX2 is; each half has the 32 bytes that are read.
        let low = unsafe { _mm256_loadu_si256(low.as_ptr().cast()) };
        // SAFETY: as above.
        let high = unsafe { _mm256_loadu_si256(high.as_ptr().cast()) };
        (low, high)
    }

    #[inline(always)]
    fn store_whole(self, v: Self::I, to: &mut [i32; LANES]) {
        let (low, high) = to.split_at_mut(LANES / 2);
        // SAFETY: `self` is there only where AVX2 is; each half has the 32 bytes that are written.
        unsafe { _mm256_storeu_si256(low.as_mut_ptr().cast(), v.0) };
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(high.as_mut_ptr().cast(), v.1) };
    }

    #[inline(always)]
    fn word(self, of: i32) -> Self::I {
        // SAFETY: `self` is there only where AVX2 is.
        let half = unsafe { _mm256_set1_epi32(of) };
        (half, half)
    }

    #[inline(always)]
    fn dot(self, a: Self::I, b: Self::I, sums: Self::I) -> Self::I {
        if VNNI {
            // `self` with `VNNI` is there only where AVX-VNNI is.
            return halves!(_mm256_dpwssd_avx_epi32(sums, a, b));
        }
        let products = halves!(_mm256_madd_epi16(a, b));
        halves!(_mm256_add_epi32(sums, products))
    }

    #[inline(always)]
    fn dot_fours(self, a: Self::I, b: Self::I, sums: Self::I) -> Self::I {
        if VNNI {
            // `self` with `VNNI` is there only where AVX-VNNI is.
            return halves!(_mm256_dpbusd_avx_epi32(sums, a, b));
        }
        simd::dot_fours(self, a, b, sums)
    }

    #[inline(always)]
    fn floats(self, v: Self::I) -> Self::V {
        halves!(_mm256_cvtepi32_ps(v))
    }

    #[inline(always)]
    fn round(self, v: Self::V, add: i32) -> Self::I {
        let (own, add) = (halves!(_mm256_cvtps_epi32(v)), self.word(add));
        halves!(_mm256_add_epi32(own, add))
    }

    #[inline(always)]
    fn halves(self, from: &[F16; LANES]) -> Self::V {
        let (low, high) = from.split_at(LANES / 2);
        // SAFETY: `self` is there only where AVX2 is; each half has the 16 bytes that are read.
        let low = unsafe { _mm_loadu_si128(low.as_ptr().cast()) };
        // SAFETY: as above.
        let high = unsafe { _mm_loadu_si128(high.as_ptr().cast()) };
        // SAFETY: `self` is there only where F16C is.
        let low = unsafe { _mm256_cvtph_ps(low) };
        // SAFETY: as above.
        let high = unsafe { _mm256_cvtph_ps(high) };
        (low, high)
    }

    #[inline(always)]
    fn store_halves(self, v: Self::V, to: &mut [F16; LANES]) {
        // SAFETY: `self` is there only where F16C is.
        let low = unsafe { _mm256_cvtps_ph::<NEAREST>(v.0) };
        // SAFETY: as above.
        let high = unsafe { _mm256_cvtps_ph::<NEAREST>(v.1) };
        let (to_low, to_high) = to.split_at_mut(LANES / 2);
        // SAFETY: as above; each half has the 16 bytes that are written.
        unsafe { _mm_storeu_si128(to_low.as_mut_ptr().cast(), low) };
        // SAFETY: as above.
        unsafe { _mm_storeu_si128(to_high.as_mut_ptr().cast(), high) };
    }

    #[inline(always)]
    fn store_bytes(self, v: Self::I, to: &mut [u8; LANES]) {
        // SAFETY: `self` is there only where AVX2 is.
        let words = unsafe { _mm256_packs_epi32(v.0, v.1) };
        // SAFETY: as above.
        let mask = unsafe { _mm256_set1_epi16(0xff) };
        // SAFETY: as above.
        let low = unsafe { _mm256_and_si256(words, mask) };
        // SAFETY: as above.
        let bytes = unsafe { _mm256_packus_epi16(low, low) };
        // Both instructions work on each half of their operands.
        // SAFETY: as above.
        let order = unsafe { _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5) };
        // SAFETY: as above.
        let bytes = unsafe { _mm256_permutevar8x32_epi32(bytes, order) };
        // SAFETY: as above.
        let bytes = unsafe { _mm256_castsi256_si128(bytes) };
        // SAFETY: as above; 16 bytes are written, to any address.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), bytes) }
    }
}
