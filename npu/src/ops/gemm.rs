//! A product of two dense matrices, for MatMul and for convolutions with kernels of one element.
//!
//! A tile of the result stays in registers while the depth is walked, so each value of the right
//! matrix is read once for several rows. Neither side is packed: rows of the left one are read
//! along, a tile of the right one stays in the first-level cache while the rows pass.
#![allow(clippy::needless_range_loop, reason = "a tile is walked by row, depth and column")]

use crate::isa::Routine;
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

/// Rows of a tile.
const ROWS: usize = 4;

impl Routine for Gemm<'_> {
    #[inline(always)]
    fn run<const WIDE: bool>(mut self) {
        if self.columns == 1 {
            self.dots();
        } else if WIDE {
            self.tiles::<16>();
        } else {
            self.tiles::<8>();
        }
    }
}

impl Gemm<'_> {
    #[inline(always)]
    fn tiles<const P: usize>(&mut self) {
        let mut column = 0;
        while column + P <= self.columns {
            self.column::<P>(column);
            column += P;
        }
        let rest = self.columns - column;
        if rest == 0 {
            return;
        }
        if self.columns >= P {
            // The last tile overlaps the one before it: those results are computed twice.
            self.column::<P>(self.columns - P);
            return;
        }
        for (width, tile) in
            [(8, Self::column::<8> as fn(&mut Self, usize)), (4, Self::column::<4>)]
        {
            while column + width <= self.columns {
                tile(self, column);
                column += width;
            }
        }
        while column < self.columns {
            self.column::<1>(column);
            column += 1;
        }
    }

    /// All rows of `P` columns.
    #[inline(always)]
    fn column<const P: usize>(&mut self, column: usize) {
        let mut row = 0;
        while row + ROWS <= self.rows {
            self.tile::<ROWS, P>(row, column);
            row += ROWS;
        }
        while row < self.rows {
            self.tile::<1, P>(row, column);
            row += 1;
        }
    }

    #[inline(always)]
    fn tile<const M: usize, const P: usize>(&mut self, row: usize, column: usize) {
        let depth = self.depth;
        let mut left = [&self.left[..0]; M];
        for m in 0..M {
            left[m] = &self.left[(row + m) * depth..][..depth];
        }
        let mut sums = [[0f32; P]; M];
        for k in 0..depth {
            let line = &self.right[k * self.columns + column..][..P];
            for m in 0..M {
                let factor = left[m][k];
                for p in 0..P {
                    sums[m][p] += factor * line[p];
                }
            }
        }
        for m in 0..M {
            let bias = self.bias.map_or(0.0, |bias| bias[row + m]);
            let out = &mut self.out[(row + m) * self.columns + column..][..P];
            finish(&sums[m], bias, self.activation, out);
        }
    }

    /// One column: each row's sum on its own, in lanes.
    #[inline(always)]
    fn dots(&mut self) {
        const LANES: usize = 32;
        for row in 0..self.rows {
            let (left, left_rest) =
                self.left[row * self.depth..][..self.depth].as_chunks::<LANES>();
            let (right, right_rest) = self.right[..self.depth].as_chunks::<LANES>();
            let mut sums = [0f32; LANES];
            for (a, b) in left.iter().zip(right) {
                for lane in 0..LANES {
                    sums[lane] += a[lane] * b[lane];
                }
            }
            let mut sum = sum(sums);
            for (a, b) in left_rest.iter().zip(right_rest) {
                sum += a * b;
            }
            let bias = self.bias.map_or(0.0, |bias| bias[row]);
            finish(&[sum], bias, self.activation, &mut self.out[row..=row]);
        }
    }
}

/// The sum of lanes, in pairs.
#[inline(always)]
pub(super) fn sum<const N: usize>(mut lanes: [f32; N]) -> f32 {
    let mut half = N / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Writes sums with the bias added and the activation applied. The sums themselves are only read,
/// so that they can stay in registers until here.
#[inline(always)]
pub(super) fn finish<const P: usize>(
    sums: &[f32; P],
    bias: f32,
    activation: Activation,
    out: &mut [f32],
) {
    for p in 0..P {
        out[p] = sums[p] + bias;
    }
    activation.apply(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa;
    use crate::ops::testing::noise;

    fn sizes() -> impl Iterator<Item = (usize, usize, usize)> {
        let depths = [0, 1, 3, 31, 32, 70];
        let columns = [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 40];
        let rows = [1, 3, 4, 5, 9];
        rows.into_iter().flat_map(move |row| {
            depths
                .into_iter()
                .flat_map(move |depth| columns.map(move |column| (row, depth, column)))
        })
    }

    #[test]
    fn every_size_on_both_forms() {
        for (rows, depth, columns) in sizes() {
            let (left, right) = (noise(rows * depth, 1), noise(depth * columns, 2));
            let bias = noise(rows, 3);
            let compute = |run: fn(Gemm<'_>)| {
                let mut out = vec![f32::NAN; rows * columns];
                run(Gemm {
                    left: &left,
                    right: &right,
                    bias: Some(&bias),
                    activation: Activation::Relu,
                    out: &mut out,
                    rows,
                    depth,
                    columns,
                });
                out
            };
            let portable = isa::portable(|| compute(|gemm| isa::run(gemm)));
            for (index, found) in portable.iter().enumerate() {
                let (row, column) = (index / columns, index % columns);
                let products = (0..depth).map(|k| {
                    f64::from(left[row * depth + k]) * f64::from(right[k * columns + column])
                });
                let expected = (products.sum::<f64>() + f64::from(bias[row])).max(0.0);
                let size = (rows, depth, columns);
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{size:?} at {index}");
            }
            assert_eq!(
                compute(|gemm| isa::run(gemm)),
                portable,
                "both forms compute the same bits"
            );
        }
    }
}
