//! A product of two dense matrices, for MatMul and for convolutions with kernels of one element.
//!
//! A tile of the result stays in registers while the depth is walked, so each value of the right
//! matrix is read once for several rows. Neither side is packed: rows of the left one are read
//! along, a tile of the right one stays in the first-level cache while the rows pass.
#![allow(clippy::needless_range_loop, reason = "a tile is walked by row, depth and column")]

use crate::isa::{self, LANES, Routine, Simd};
use crate::ops::Activation;

/// `out = activation(left * right + bias)`; all matrices row by row.
pub(super) struct Gemm<'a> {
    /// `rows` x `depth`.
    pub(super) left: &'a [f32],
    /// `depth` x `columns`.
    pub(super) right: &'a [f32],
    /// One value a row.
    pub(super) bias: Option<&'a [f32]>,
    pub(super) activation: Activation,
    /// `rows` x `columns`.
    pub(super) out: &'a mut [f32],
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
}

/// Multiplies in the best form for this machine: the one copy of it for all who call it.
#[inline(never)]
pub(super) fn run(gemm: Gemm<'_>) {
    isa::run(gemm);
}

impl Routine for Gemm<'_> {
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        if self.columns == 1 {
            self.dots(simd);
        } else if self.rows == 1 {
            self.panels::<S, 1, 6>(simd);
        } else if S::REGISTERS >= 32 {
            self.panels::<S, 6, 2>(simd);
        } else if S::REGISTERS >= 8 {
            self.panels::<S, 6, 1>(simd);
        } else {
            self.panels::<S, 2, 1>(simd);
        }
    }
}

impl Gemm<'_> {
    /// `M` rows by `N` vectors of columns at a time. The last vectors overlap those before them
    /// where there are any: those results are computed twice.
    #[inline(always)]
    fn panels<S: Simd, const M: usize, const N: usize>(&mut self, simd: S) {
        let mut column = 0;
        while column + N * LANES <= self.columns {
            self.panel::<S, M, N>(simd, column);
            column += N * LANES;
        }
        while column + LANES <= self.columns {
            self.panel::<S, M, 1>(simd, column);
            column += LANES;
        }
        if column < self.columns {
            self.panel::<S, M, 1>(simd, self.columns.saturating_sub(LANES));
        }
    }

    /// All rows of some columns.
    #[inline(always)]
    fn panel<S: Simd, const M: usize, const N: usize>(&mut self, simd: S, column: usize) {
        let mut row = 0;
        while row + M <= self.rows {
            self.tile::<S, M, N>(simd, row, column);
            row += M;
        }
        while row + 4 <= self.rows && M > 4 {
            self.tile::<S, 4, N>(simd, row, column);
            row += 4;
        }
        while row < self.rows {
            self.tile::<S, 1, N>(simd, row, column);
            row += 1;
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const M: usize, const N: usize>(
        &mut self,
        simd: S,
        row: usize,
        column: usize,
    ) {
        let depth = self.depth;
        let mut left = [&self.left[..0]; M];
        for m in 0..M {
            left[m] = &self.left[(row + m) * depth..][..depth];
        }
        let width = (self.columns - column).min(N * LANES);
        let mut sums = [[simd.splat(0.0); N]; M];
        for k in 0..depth {
            let line = &self.right[k * self.columns + column..][..width];
            let mut right = [simd.splat(0.0); N];
            if width == N * LANES {
                let (vectors, _) = line.as_chunks::<LANES>();
                for n in 0..N {
                    right[n] = simd.load(&vectors[n]);
                }
            } else {
                right[0] = simd.load_part(line);
            }
            for m in 0..M {
                let factor = simd.splat(left[m][k]);
                for n in 0..N {
                    sums[m][n] = simd.mul_add(factor, right[n], sums[m][n]);
                }
            }
        }
        for m in 0..M {
            let bias = simd.splat(self.bias.map_or(0.0, |bias| bias[row + m]));
            let out = &mut self.out[(row + m) * self.columns + column..][..width];
            for (n, out) in out.chunks_mut(LANES).enumerate().take(N) {
                let value = self.activation.of_vector(simd, simd.add(sums[m][n], bias));
                simd.store_part(value, out);
            }
        }
    }

    /// One column: each row's sum on its own.
    #[inline(always)]
    fn dots<S: Simd>(&mut self, simd: S) {
        let (right, right_rest) = self.right[..self.depth].as_chunks::<LANES>();
        let (right_fours, right_ones) = right.as_chunks::<4>();
        for row in 0..self.rows {
            let (left, left_rest) =
                self.left[row * self.depth..][..self.depth].as_chunks::<LANES>();
            let (fours, ones) = left.as_chunks::<4>();
            let mut sums = [simd.splat(0.0); 4];
            for (a, b) in fours.iter().zip(right_fours) {
                for n in 0..4 {
                    sums[n] = simd.mul_add(simd.load(&a[n]), simd.load(&b[n]), sums[n]);
                }
            }
            for (a, b) in ones.iter().zip(right_ones) {
                sums[0] = simd.mul_add(simd.load(a), simd.load(b), sums[0]);
            }
            let (a, b) = (simd.load_part(left_rest), simd.load_part(right_rest));
            sums[1] = simd.mul_add(a, b, sums[1]);
            let sum = simd.add(simd.add(sums[0], sums[1]), simd.add(sums[2], sums[3]));
            let bias = self.bias.map_or(0.0, |bias| bias[row]);
            self.out[row] = self.activation.of(simd.sum(sum) + bias);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{self, Isa};
    use crate::ops::testing::noise;

    fn sizes() -> impl Iterator<Item = (usize, usize, usize)> {
        let depths = [0, 1, 3, 31, 32, 70];
        let columns = [1, 2, 3, 15, 16, 17, 40, 100];
        let rows = [1, 3, 6, 12, 17];
        rows.into_iter().flat_map(move |row| {
            depths
                .into_iter()
                .flat_map(move |depth| columns.map(move |column| (row, depth, column)))
        })
    }

    #[test]
    fn every_size_on_every_isa() {
        for ((rows, depth, columns), isa) in sizes().flat_map(|own| Isa::ALL.map(|isa| (own, isa)))
        {
            let (left, right) = (noise(rows * depth, 1), noise(depth * columns, 2));
            let bias = noise(rows, 3);
            let mut out = vec![f32::NAN; rows * columns];
            let gemm = Gemm {
                left: &left,
                right: &right,
                bias: Some(&bias),
                activation: Activation::Relu,
                out: &mut out,
                rows,
                depth,
                columns,
            };
            isa::at_most(isa, || isa::run(gemm));
            for (index, found) in out.iter().enumerate() {
                let (row, column) = (index / columns, index % columns);
                let products = (0..depth).map(|k| {
                    f64::from(left[row * depth + k]) * f64::from(right[k * columns + column])
                });
                let expected = (products.sum::<f64>() + f64::from(bias[row])).max(0.0);
                let case = (rows, depth, columns, isa);
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{case:?} at {index}");
            }
        }
    }
}
