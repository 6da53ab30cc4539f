//! Convolutions with kernels of more than one element, or with strides or padding.
//!
//! The input is laid out once, in scratch memory, such that for each element of the kernel all that
//! it meets lies together, in the order of the results: padding is written out as zeros, and with a
//! stride of s each dim is dealt out to s *phases*. A result is then a sum over elements of the
//! kernel of `weight * line[column]`, with one line for each element of the kernel and each map: a
//! matrix product whose right side is never built, since neighbouring lines overlap.
//!
//! ```text
//!  phase (z, y, x):   EY rows of EX, EZ times; column = (z * EY + y) * EX + x of the result
//!  results:           OY rows of OX of them; the columns in between are computed and dropped
//! ```
#![allow(clippy::needless_range_loop, reason = "a tile is walked by map, depth and column")]

use super::{Conv, DIMS, Geometry};
use crate::aligned::align_up;
use crate::cast;
use crate::isa::{LANES, Routine, Simd};
use crate::ops::Activation;
use crate::tensor::Fault;

/// Most columns of a tile: as many may be read behind the last phase.
const SLACK: usize = 4 * LANES;

/// Bytes of a line's place in scratch memory, on every machine.
const LINE_SIZE: usize = 8;

/// How the input lies in scratch memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Phases along each dim.
    phases: [usize; DIMS],
    /// Elements of a phase along each dim.
    extent: [usize; DIMS],
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Layout {
    pub(super) fn new(conv: &Conv, geometry: &Geometry) -> Self {
        let mut own = Self { phases: [1; DIMS], extent: [1; DIMS] };
        for dim in 0..DIMS {
            let (stride, dilation) = (conv.strides[dim], conv.dilations[dim]);
            // Elements of the kernel that are a multiple of the stride apart share a phase.
            let kernel = geometry.kernel[dim];
            own.phases[dim] = kernel.min(stride / gcd(stride, dilation));
            own.extent[dim] = geometry.output[dim] + (kernel - 1) * dilation / stride;
        }
        own
    }

    /// Elements of all phases of a map; `None` when they can't be counted.
    fn map_size(&self) -> Option<usize> {
        let sizes = self.phases.iter().chain(&self.extent);
        sizes.copied().try_fold(1usize, usize::checked_mul)
    }

    /// Bytes of scratch memory; saturates.
    pub(super) fn scratch_bytes(&self, geometry: &Geometry) -> usize {
        let floats = || self.map_size()?.checked_mul(geometry.in_maps)?.checked_add(SLACK);
        let bytes = || {
            let lines = geometry.lines().checked_mul(LINE_SIZE)?;
            align_up(lines).checked_add(floats()?.checked_mul(size_of::<f32>())?)
        };
        bytes().unwrap_or(usize::MAX)
    }

    /// Where the line of each element of the kernel begins, map by map.
    fn lines(&self, conv: &Conv, geometry: &Geometry, lines: &mut [usize]) {
        let phase_size = self.extent.iter().product::<usize>();
        let map_size = self.map_size().unwrap_or(0);
        for (index, line) in lines.iter_mut().enumerate() {
            let mut rest = index;
            let (mut phase, mut place) = ([0; DIMS], [0; DIMS]);
            for dim in (0..DIMS).rev() {
                let tap = rest % geometry.kernel[dim];
                rest /= geometry.kernel[dim];
                phase[dim] = tap % self.phases[dim];
                place[dim] = tap * conv.dilations[dim] / conv.strides[dim];
            }
            let [_, y, x] = self.phases;
            let phase = (phase[0] * y + phase[1]) * x + phase[2];
            let [_, y, x] = self.extent;
            let place = (place[0] * y + place[1]) * x + place[2];
            *line = rest * map_size + phase * phase_size + place;
        }
    }

    /// Lays out the maps of one image and group.
    fn fill(&self, conv: &Conv, geometry: &Geometry, input: &[f32], floats: &mut [f32]) {
        let [depth, height, width] = geometry.input;
        if input.is_empty() {
            // Nothing but padding.
            floats.fill(0.0);
            return;
        }
        let [z_phases, y_phases, x_phases] = self.phases;
        let [z_extent, y_extent, x_extent] = self.extent;
        let mut rows = floats.chunks_exact_mut(x_extent);
        // Index in the input of a place in a phase, if it is none of the padding.
        let index = |dim: usize, phase: usize, place: usize, limit: usize| {
            let residue = phase * conv.dilations[dim] % conv.strides[dim];
            let padded = place * conv.strides[dim] + residue;
            padded.checked_sub(conv.pads_begin[dim]).filter(|index| *index < limit)
        };
        for map in input.chunks_exact(depth * height * width) {
            for phase in 0..z_phases * y_phases * x_phases {
                let (z_phase, y_phase) = (phase / x_phases / y_phases, phase / x_phases % y_phases);
                let residue = phase % x_phases * conv.dilations[2] % conv.strides[2];
                for row in 0..z_extent * y_extent {
                    let Some(to) = rows.next() else { return };
                    let z = index(0, z_phase, row / y_extent, depth);
                    let y = index(1, y_phase, row % y_extent, height);
                    match z.zip(y) {
                        Some((z, y)) => {
                            let from = &map[(z * height + y) * width..][..width];
                            deal(from, to, conv.pads_begin[2], residue, conv.strides[2]);
                        }
                        None => to.fill(0.0),
                    }
                }
            }
        }
    }
}

/// Every `stride`-th element of a padded row, from `residue` on.
fn deal(from: &[f32], to: &mut [f32], pad: usize, residue: usize, stride: usize) {
    let zeros = pad.saturating_sub(residue).div_ceil(stride).min(to.len());
    let (before, rest) = to.split_at_mut(zeros);
    before.fill(0.0);
    let first = zeros * stride + residue - pad.min(zeros * stride + residue);
    let from = from.get(first..).unwrap_or_default();
    let count = from.len().div_ceil(stride).min(rest.len());
    let (inside, after) = rest.split_at_mut(count);
    if stride == 1 {
        inside.copy_from_slice(&from[..count]);
    } else {
        inside.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, from)| *to = *from);
    }
    after.fill(0.0);
}

/// Scratch memory: lines, then phases.
#[derive(Debug)]
pub(super) struct Scratch<'a> {
    lines: &'a mut [usize],
    floats: &'a mut [f32],
}

impl<'a> Scratch<'a> {
    /// Takes the memory and fills the lines, which are the same for all images and groups.
    pub(super) fn new(
        conv: &Conv,
        geometry: &Geometry,
        layout: &Layout,
        bytes: &'a mut [u8],
    ) -> Result<Self, Fault> {
        let count = geometry.lines();
        let size = align_up(count * LINE_SIZE);
        let (lines, floats) = bytes.split_at_mut_checked(size).ok_or(Fault::Memory)?;
        let lines = cast::elements_mut(lines).ok_or(Fault::Memory)?;
        let lines: &mut [usize] = &mut lines[..count];
        layout.lines(conv, geometry, lines);
        Ok(Self { lines, floats: cast::elements_mut(floats).ok_or(Fault::Memory)? })
    }

    /// Lays out the maps of one image and group.
    pub(super) fn fill(
        &mut self,
        conv: &Conv,
        geometry: &Geometry,
        layout: &Layout,
        input: &[f32],
    ) {
        let (phases, slack) = self.floats.split_at_mut(self.floats.len().saturating_sub(SLACK));
        layout.fill(conv, geometry, input, phases);
        slack.fill(0.0);
    }
}

/// One image, one group.
pub(super) struct Direct<'a> {
    pub(super) layout: &'a Layout,
    pub(super) scratch: &'a Scratch<'a>,
    pub(super) output: [usize; DIMS],
    /// A row of `lines` weights each of `maps`.
    pub(super) weights: &'a [f32],
    /// One value each of `maps`.
    pub(super) bias: Option<&'a [f32]>,
    pub(super) activation: Activation,
    /// `maps` maps.
    pub(super) out: &'a mut [f32],
    pub(super) maps: usize,
}

impl Routine for Direct<'_> {
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        if S::REGISTERS >= 32 {
            self.tiles::<S, 8, 2>(simd);
        } else if S::REGISTERS >= 8 {
            self.tiles::<S, 4, 1>(simd);
        } else {
            self.tiles::<S, 2, 1>(simd);
        }
    }
}

impl Direct<'_> {
    /// All maps: `M` of them by `N` vectors of columns at a time, and what is left one by four.
    #[inline(always)]
    fn tiles<S: Simd, const M: usize, const N: usize>(&mut self, simd: S) {
        let [depth, height, width] = self.output;
        let [_, rows, row] = self.layout.extent;
        let columns = ((depth - 1) * rows + height - 1) * row + width;
        let whole = self.maps / M * M;
        for column in (0..columns).step_by(N * LANES) {
            for map in (0..whole).step_by(M) {
                self.tile::<S, M, N>(simd, map, column);
            }
        }
        for map in whole..self.maps {
            for column in (0..columns).step_by(4 * LANES) {
                self.tile::<S, 1, 4>(simd, map, column);
            }
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const M: usize, const N: usize>(
        &mut self,
        simd: S,
        map: usize,
        column: usize,
    ) {
        let lines = &*self.scratch.lines;
        let mut weights = [&self.weights[..0]; M];
        for m in 0..M {
            weights[m] = &self.weights[(map + m) * lines.len()..][..lines.len()];
        }
        let mut sums = [[simd.splat(0.0); N]; M];
        for k in 0..lines.len() {
            let (line, _) =
                self.scratch.floats[lines[k] + column..][..N * LANES].as_chunks::<LANES>();
            let mut vectors = [simd.splat(0.0); N];
            for n in 0..N {
                vectors[n] = simd.load(&line[n]);
            }
            for m in 0..M {
                let factor = simd.splat(weights[m][k]);
                for n in 0..N {
                    sums[m][n] = simd.mul_add(factor, vectors[n], sums[m][n]);
                }
            }
        }
        for m in 0..M {
            let bias = simd.splat(self.bias.map_or(0.0, |bias| bias[map + m]));
            let mut tile = [[0f32; LANES]; N];
            for n in 0..N {
                let value = self.activation.of_vector(simd, simd.add(sums[m][n], bias));
                simd.store(value, &mut tile[n]);
            }
            self.store(map + m, column, tile.as_flattened());
        }
    }

    /// Writes those of some neighbouring columns that are results.
    #[inline(always)]
    fn store(&mut self, map: usize, column: usize, tile: &[f32]) {
        let [depth, height, width] = self.output;
        let [_, rows, row] = self.layout.extent;
        let (mut line, mut x) = (column / row, column % row);
        let mut at = 0;
        while at < tile.len() {
            let count = (row - x).min(tile.len() - at);
            let (z, y) = if depth == 1 { (0, line) } else { (line / rows, line % rows) };
            if z < depth && y < height && x < width {
                let count = count.min(width - x);
                let out = ((map * depth + z) * height + y) * width + x;
                self.out[out..][..count].copy_from_slice(&tile[at..][..count]);
            }
            at += count;
            line += 1;
            x = 0;
        }
    }
}
