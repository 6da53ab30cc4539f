//! Bilinear scaling of bytes as OpenCV does it (`INTER_LINEAR`), bit for bit: weights in 1/2048,
//! integer sums, two shifts. Half the size in both directions is the mean of four pixels there.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "sides of pictures"
)]

/// Weights add up to this.
const ONE: f32 = 2048.0;

/// Two neighbours and their weights.
#[derive(Debug, Clone, Copy)]
struct Tap {
    at: [usize; 2],
    weight: [i32; 2],
}

/// Buffers, kept from one picture to the next.
#[derive(Debug, Default)]
pub struct Resizer {
    columns: Vec<Tap>,
    /// Two rows scaled in width, and which of the source they are.
    rows: [(usize, Vec<i32>); 2],
}

impl Resizer {
    /// Scales a picture of `N` samples a pixel; `row` gets each row of the result with its number.
    ///
    /// # Panics
    /// When a side is 0 or `pixels` is not `source.0 * source.1 * N` long.
    pub fn resize<const N: usize>(
        &mut self,
        pixels: &[u8],
        source: (usize, usize),
        target: (usize, usize),
        mut row: impl FnMut(usize, &[u8]),
    ) {
        assert_eq!(pixels.len(), source.0 * source.1 * N, "a picture of these sides");
        assert!(target.0 > 0 && target.1 > 0 && source.0 > 0 && source.1 > 0, "no empty picture");
        let lines = |y: usize| &pixels[y * source.0 * N..][..source.0 * N];
        if source == target {
            return (0..source.1).for_each(|y| row(y, lines(y)));
        }
        let mut out = vec![0; target.0 * N];
        if source == (2 * target.0, 2 * target.1) {
            for y in 0..target.1 {
                halve::<N>(lines(2 * y), lines(2 * y + 1), &mut out);
                row(y, &out);
            }
            return;
        }
        self.columns.clear();
        self.columns.extend((0..target.0).map(|x| tap(x, source.0, target.0, true)));
        for kept in &mut self.rows {
            kept.0 = usize::MAX;
            kept.1.resize(target.0 * N, 0);
        }
        for y in 0..target.1 {
            let tap = tap(y, source.1, target.1, false);
            let places = tap.at.map(|from| self.scaled::<N>(from, lines(from), tap.at));
            let [upper, lower] = places.map(|place| &self.rows[place].1);
            let [first, second] = tap.weight;
            for ((to, upper), lower) in out.iter_mut().zip(upper).zip(lower) {
                let sum = ((first * (upper >> 4)) >> 16) + ((second * (lower >> 4)) >> 16);
                *to = ((sum + 2) >> 2).clamp(0, 255) as u8;
            }
            row(y, &out);
        }
    }

    /// Where row `from` lies scaled in width; one that `needed` does not name makes room for it.
    fn scaled<const N: usize>(&mut self, from: usize, line: &[u8], needed: [usize; 2]) -> usize {
        if let Some(place) = self.rows.iter().position(|kept| kept.0 == from) {
            return place;
        }
        let place = usize::from(needed.contains(&self.rows[0].0));
        let (kept, scaled) = &mut self.rows[place];
        *kept = from;
        let line = line.as_chunks::<N>().0;
        for (to, tap) in scaled.as_chunks_mut::<N>().0.iter_mut().zip(&self.columns) {
            let [left, right] = tap.at.map(|at| &line[at]);
            for ((to, left), right) in to.iter_mut().zip(left).zip(right) {
                *to = i32::from(*left) * tap.weight[0] + i32::from(*right) * tap.weight[1];
            }
        }
        place
    }
}

/// Neighbours of target `at`. Beyond the border a column is the border's pixel, a row the border's
/// row twice, which rounds differently.
fn tap(at: usize, source: usize, target: usize, is_column: bool) -> Tap {
    let scale = 1.0 / (target as f64 / source as f64);
    let exact = ((at as f64 + 0.5) * scale - 0.5) as f32;
    let floor = exact.floor();
    let (mut fraction, last) = (exact - floor, source as i64 - 1);
    let first = floor as i64;
    if is_column && (first < 0 || first >= last) {
        fraction = 0.0;
    }
    let at = [first, first + 1].map(|at| at.clamp(0, last) as usize);
    let weight = [1.0 - fraction, fraction].map(|part| (part * ONE).round_ties_even() as i32);
    Tap { at, weight }
}

fn halve<const N: usize>(upper: &[u8], lower: &[u8], out: &mut [u8]) {
    let pairs = upper.chunks_exact(2 * N).zip(lower.chunks_exact(2 * N));
    for (to, (upper, lower)) in out.as_chunks_mut::<N>().0.iter_mut().zip(pairs) {
        for (sample, to) in to.iter_mut().enumerate() {
            let four = [upper[sample], upper[N + sample], lower[sample], lower[N + sample]];
            *to = ((four.map(u32::from).iter().sum::<u32>() + 2) >> 2) as u8;
        }
    }
}
