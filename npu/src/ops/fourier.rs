//! Discrete Fourier transforms of any length, in memory that is given: by halves where the length
//! is a power of two, else as a convolution of such a length (Bluestein).

use std::f64::consts::PI;

/// A transform of one length. Numbers are complex: real and imaginary part behind one another.
#[derive(Debug)]
pub(super) struct Transform<'a> {
    length: usize,
    /// exp(-2πi k / whole), for the first half of a circle.
    turns: &'a mut [f64],
    /// exp(-πi n² / length); empty where the length is a power of two.
    chirp: &'a mut [f64],
    /// The transform of the chirp that a signal is convolved with.
    kernel: &'a mut [f64],
    /// The signal, and what comes of it.
    work: &'a mut [f64],
}

/// Length of the transforms by halves.
fn whole(length: usize) -> usize {
    if length.is_power_of_two() {
        return length;
    }
    length.saturating_mul(2).checked_next_power_of_two().unwrap_or(usize::MAX)
}

/// Operations of one transform.
pub(super) fn flops(length: usize) -> u64 {
    let (whole, times) = (whole(length), if length.is_power_of_two() { 5 } else { 12 });
    (whole as u64).saturating_mul(times * u64::from(whole.checked_ilog2().unwrap_or(0).max(1)))
}

impl<'a> Transform<'a> {
    /// Bytes of memory that a transform needs.
    pub(super) fn bytes(length: usize) -> usize {
        let (whole, chirped) = (whole(length), usize::from(!length.is_power_of_two()));
        let numbers = whole.saturating_mul(3 + 2 * chirped);
        numbers.saturating_add(length.saturating_mul(2 * chirped)).saturating_mul(size_of::<f64>())
    }

    /// Of a length from 1 on; `None` where the memory is too small.
    pub(super) fn new(length: usize, memory: &'a mut [f64]) -> Option<Self> {
        let whole = whole(length);
        let chirped = if length.is_power_of_two() { 0 } else { 1 };
        let (turns, memory) = memory.split_at_mut_checked(whole)?;
        let (work, memory) = memory.split_at_mut_checked(2 * whole)?;
        let (chirp, memory) = memory.split_at_mut_checked(2 * length * chirped)?;
        let (kernel, _) = memory.split_at_mut_checked(2 * whole * chirped)?;
        let mut own = Self { length, turns, chirp, kernel, work };
        own.prepare(whole);
        Some(own)
    }

    #[expect(clippy::cast_precision_loss, reason = "angles, from numbers far below 2^53")]
    fn prepare(&mut self, whole: usize) {
        for (k, turn) in self.turns.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let angle = -2.0 * PI * k as f64 / whole as f64;
            *turn = [angle.cos(), angle.sin()];
        }
        let length = self.length as u128;
        for (n, turn) in self.chirp.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let square = (n as u128 * n as u128 % (2 * length)) as f64;
            let angle = -PI * square / self.length as f64;
            *turn = [angle.cos(), angle.sin()];
        }
        self.kernel.fill(0.0);
        let (kernel, _) = self.kernel.as_chunks_mut::<2>();
        for (n, [re, im]) in self.chirp.as_chunks::<2>().0.iter().enumerate() {
            kernel[n] = [*re, -im];
            kernel[(whole - n) % whole] = kernel[n];
        }
        by_halves(kernel, self.turns);
    }

    /// Memory of the signal; the transform's results lie there, too.
    pub(super) fn signal(&mut self) -> &mut [[f64; 2]] {
        &mut self.work.as_chunks_mut::<2>().0[..self.length]
    }

    /// Transforms the signal.
    pub(super) fn run(&mut self) {
        let (work, _) = self.work.as_chunks_mut::<2>();
        if self.chirp.is_empty() {
            by_halves(work, self.turns);
            return;
        }
        let (chirp, _) = self.chirp.as_chunks::<2>();
        let (kernel, _) = self.kernel.as_chunks::<2>();
        work[self.length..].fill([0.0; 2]);
        work.iter_mut().zip(chirp).for_each(|(x, turn)| *x = times(*x, *turn));
        by_halves(work, self.turns);
        // Of the conjugate, a transform goes back.
        for (x, factor) in work.iter_mut().zip(kernel) {
            let [re, im] = times(*x, *factor);
            *x = [re, -im];
        }
        by_halves(work, self.turns);
        #[expect(clippy::cast_precision_loss, reason = "a power of two")]
        let part = 1.0 / work.len() as f64;
        for (x, turn) in work.iter_mut().zip(chirp) {
            *x = times([x[0] * part, -x[1] * part], *turn);
        }
    }
}

#[inline(always)]
fn times(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// Transforms as many numbers as a power of two; `turns` are those of that length.
fn by_halves(x: &mut [[f64; 2]], turns: &[f64]) {
    let (length, (turns, _)) = (x.len(), turns.as_chunks::<2>());
    if length < 2 {
        return;
    }
    let shift = usize::BITS - length.trailing_zeros();
    for at in 0..length {
        let other = at.reverse_bits() >> shift;
        if at < other {
            x.swap(at, other);
        }
    }
    let mut half = 1;
    while half < length {
        let step = length / (2 * half);
        for block in x.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for ((a, b), turn) in low.iter_mut().zip(high).zip(turns.iter().step_by(step)) {
                let turned = times(*b, *turn);
                *b = [a[0] - turned[0], a[1] - turned[1]];
                *a = [a[0] + turned[0], a[1] + turned[1]];
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_the_definition() {
        for length in (1..=70).chain([100, 127, 128, 255, 400]) {
            let bytes = Transform::bytes(length);
            let mut memory = vec![f64::NAN; bytes / size_of::<f64>()];
            assert!(Transform::new(length, &mut memory[1..]).is_none(), "{length}: too small");
            let mut own = Transform::new(length, &mut memory).unwrap();
            let sample = |n: usize| [(n as f64 * 1.7).sin(), (n as f64 * 0.3).cos()];
            for _again in 0..2 {
                own.signal().iter_mut().enumerate().for_each(|(n, x)| *x = sample(n));
                own.run();
                for (k, found) in own.signal().iter().enumerate() {
                    let expected = (0..length).fold([0.0; 2], |sum: [f64; 2], n| {
                        let angle = -2.0 * PI * ((n * k) % length) as f64 / length as f64;
                        let part = times(sample(n), [angle.cos(), angle.sin()]);
                        [sum[0] + part[0], sum[1] + part[1]]
                    });
                    for part in 0..2 {
                        let off = (found[part] - expected[part]).abs();
                        assert!(off < 1e-11, "{length}, {k}: {found:?}, expected {expected:?}");
                    }
                }
            }
        }
    }
}
