//! The convolution itself, for kernels of more than one element: no matrix is built of the input.
//!
//! A tile is a few maps of the result by a few neighbours along the last dim; it stays in registers
//! while the maps of the input and the elements of the kernel are walked. Where the kernel sticks
//! out at either end of a row, one result at a time is computed from the elements inside.

use std::ops::Range;

use super::{Conv, DIMS, Geometry};
use crate::isa::Routine;
use crate::ops::gemm::finish;

/// One image, one group.
pub(super) struct Direct<'a> {
    pub(super) conv: &'a Conv,
    pub(super) geometry: &'a Geometry,
    /// `in_maps` maps.
    pub(super) input: &'a [f32],
    /// `out_maps` kernels over `in_maps` maps each.
    pub(super) weights: &'a [f32],
    /// One value each of `out_maps`.
    pub(super) bias: Option<&'a [f32]>,
    /// `out_maps` maps.
    pub(super) out: &'a mut [f32],
}

/// Maps of a tile.
const MAPS: usize = 4;

/// The part of the kernel that lies inside the input, at one row of the result: for the first two
/// dims, first index in the input and the elements of the kernel.
#[derive(Clone)]
struct Inside {
    starts: [usize; 2],
    taps: [Range<usize>; 2],
}

impl Routine for Direct<'_> {
    #[inline(always)]
    fn run<const WIDE: bool>(mut self) {
        let maps = self.geometry.out_maps;
        let mut map = 0;
        while map + MAPS <= maps {
            self.maps::<MAPS, WIDE>(map);
            map += MAPS;
        }
        while map < maps {
            self.maps::<1, WIDE>(map);
            map += 1;
        }
    }
}

impl Direct<'_> {
    /// `M` maps of the result, row by row.
    #[inline(always)]
    fn maps<const M: usize, const WIDE: bool>(&mut self, map: usize) {
        let [depth, height, _] = self.geometry.output;
        for z in 0..depth {
            for y in 0..height {
                let (z_start, z_taps) = self.taps(0, z);
                let (y_start, y_taps) = self.taps(1, y);
                let inside = Inside { starts: [z_start, y_start], taps: [z_taps, y_taps] };
                let row = z * height + y;
                if self.conv.strides[2] == 1 {
                    self.row::<M, WIDE, true>(map, row, &inside);
                } else {
                    self.row::<M, WIDE, false>(map, row, &inside);
                }
            }
        }
    }

    /// Elements of the kernel inside the input at one place along a dim, and the index in the input
    /// of the first of them.
    #[inline(always)]
    fn taps(&self, dim: usize, place: usize) -> (usize, Range<usize>) {
        let (input, kernel) = (self.geometry.input[dim], self.geometry.kernel[dim]);
        let (stride, dilation) = (self.conv.strides[dim], self.conv.dilations[dim]);
        let (at, pad) = (place * stride, self.conv.pads_begin[dim]);
        let first = pad.saturating_sub(at).div_ceil(dilation);
        // Elements before the input's end: pad + input - at is what is left from the first on.
        let end = (pad + input).saturating_sub(at).div_ceil(dilation).min(kernel);
        if first >= end {
            return (0, 0..0);
        }
        (at + first * dilation - pad, first..end)
    }

    /// One row of `M` maps.
    #[inline(always)]
    fn row<const M: usize, const WIDE: bool, const DENSE: bool>(
        &mut self,
        map: usize,
        row: usize,
        inside: &Inside,
    ) {
        let width = self.geometry.output[2];
        let (low, high) = self.whole(width);
        let mut x = 0;
        while x < width {
            let left = if x < low { 0 } else { high.saturating_sub(x) };
            // A tile that would stick out to the right is moved back, if that is still inside.
            let (at, size) = match left {
                0 => (x, 1),
                16.. if WIDE || M == 1 => (x, 16),
                1..16 if WIDE && high - low >= 16 && left > 4 => (high - 16, 16),
                8.. => (x, 8),
                1..8 if high - low >= 8 && left > 1 => (high - 8, 8),
                4.. => (x, 4),
                _ => (x, 1),
            };
            match size {
                16 => self.tile::<M, 16, DENSE>(map, row, at, inside),
                8 => self.tile::<M, 8, DENSE>(map, row, at, inside),
                4 => self.tile::<M, 4, DENSE>(map, row, at, inside),
                _ => self.tile::<M, 1, DENSE>(map, row, at, inside),
            }
            x = at + size;
        }
    }

    /// Places along the last dim where the whole kernel lies inside the input: first, and behind
    /// the last; equal when there are none.
    #[inline(always)]
    fn whole(&self, width: usize) -> (usize, usize) {
        let (input, kernel) = (self.geometry.input[2], self.geometry.kernel[2]);
        let (stride, pad) = (self.conv.strides[2], self.conv.pads_begin[2]);
        let low = pad.div_ceil(stride).min(width);
        let reach = (kernel - 1) * self.conv.dilations[2] + 1;
        let room = (input + pad).checked_sub(reach);
        let high = room.map_or(0, |room| room / stride + 1).min(width);
        (low, high.max(low))
    }

    /// `M` maps by `P` neighbours of one row. With `P` above 1, the whole kernel lies inside.
    #[inline(always)]
    fn tile<const M: usize, const P: usize, const DENSE: bool>(
        &mut self,
        map: usize,
        row: usize,
        x: usize,
        inside: &Inside,
    ) {
        let [in_depth, in_height, in_width] = self.geometry.input;
        let [k_depth, k_height, k_width] = self.geometry.kernel;
        let [z_dilation, y_dilation, x_dilation] = self.conv.dilations;
        let taps = self.geometry.kernel.iter().product::<usize>();
        let stride = if DENSE { 1 } else { self.conv.strides[2] };
        let (x_start, x_taps) = self.taps(2, x);
        let span = (P - 1) * stride + 1;
        let weights_of_map = self.geometry.in_maps * taps;
        let weights: [&[f32]; M] = std::array::from_fn(|m| {
            &self.weights[(map + m) * weights_of_map..][..weights_of_map]
        });
        let mut sums = [[0f32; P]; M];
        debug_assert!(P == 1 || x_taps == (0..k_width), "the kernel lies inside");
        for in_map in 0..self.geometry.in_maps {
            let mut z = inside.starts[0];
            for kz in inside.taps[0].clone() {
                let mut y = inside.starts[1];
                for ky in inside.taps[1].clone() {
                    let line = ((in_map * in_depth + z) * in_height + y) * in_width;
                    let line = &self.input[line..][..in_width];
                    let kernel = ((in_map * k_depth + kz) * k_height + ky) * k_width;
                    let mut from = x_start;
                    for kx in x_taps.clone() {
                        let values = &line[from..][..span];
                        for m in 0..M {
                            let factor = weights[m][kernel + kx];
                            for p in 0..P {
                                sums[m][p] += factor * values[p * stride];
                            }
                        }
                        from += x_dilation;
                    }
                    y += y_dilation;
                }
                z += z_dilation;
            }
        }
        let size = self.geometry.output.iter().product::<usize>();
        for (m, mut sums) in sums.into_iter().enumerate() {
            let bias = self.bias.map_or(0.0, |bias| bias[map + m]);
            finish(&mut sums, bias, self.conv.activation);
            let at = (map + m) * size + row * self.geometry.output[DIMS - 1] + x;
            self.out[at..][..P].copy_from_slice(&sums);
        }
    }
}
