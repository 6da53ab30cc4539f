//! Elements of any type as numbers of a wide one: floats as `f64`, whole numbers and bools as
//! `i128`. A kernel that is written with them exists twice, not once for each of 13 types.
//!
//! Nothing is lost on the way: every element has its exact value in the wide type. A whole number
//! keeps its lowest bits when it is written, so sums, differences and products wrap around as those
//! of its own type do; a float is rounded once. Kernels that matter are for `f32` as it is, too.

use std::marker::PhantomData;

use crate::DataType;
use crate::cast::{elements, elements_mut};
use crate::element::{Element, is_float, with_bits, with_type};
use crate::half::{Bf16, F16};
use crate::tensor::Fault;

/// Numbers that are converted together.
pub(crate) const BLOCK: usize = 64;

/// A type that elements are computed with.
pub(crate) trait Wide: Element {
    /// Reads every `stride`-th element from `first` on.
    fn read(from: Numbers<'_, Self>, first: usize, stride: usize, to: &mut [Self]);
    /// Writes every `stride`-th element from `first` on.
    fn write(to: &mut NumbersMut<'_, Self>, first: usize, stride: usize, from: &[Self]);
    /// The lowest and the highest element of a type.
    fn ends(dtype: DataType) -> (Self, Self);
}

/// Elements to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers<'a, W> {
    dtype: DataType,
    bytes: &'a [u8],
    wide: PhantomData<W>,
}

/// Elements to write.
#[derive(Debug)]
pub(crate) struct NumbersMut<'a, W> {
    dtype: DataType,
    bytes: &'a mut [u8],
    wide: PhantomData<W>,
}

/// Whether the memory of elements fits their type.
fn check(dtype: DataType, bytes: &[u8]) -> Result<(), Fault> {
    with_bits!(dtype, T => elements::<T>(bytes).map(|_| ()).ok_or(Fault::Memory))
}

impl<'a, W: Wide> Numbers<'a, W> {
    /// Of a type that has elements.
    ///
    /// # Errors
    /// The memory does not fit the type.
    pub(crate) fn new(dtype: DataType, bytes: &'a [u8]) -> Result<Self, Fault> {
        check(dtype, bytes)?;
        Ok(Self { dtype, bytes, wide: PhantomData })
    }

    /// One element. Panics when there is none.
    pub(crate) fn get(self, index: usize) -> W {
        let mut one = [W::ZERO];
        W::read(self, index, 1, &mut one);
        one[0]
    }

    /// As many as `to` has, from `first` on, each `stride` behind the one before. Panics when there
    /// are fewer.
    pub(crate) fn read(self, first: usize, stride: usize, to: &mut [W]) {
        W::read(self, first, stride, to);
    }
}

impl<'a, W: Wide> NumbersMut<'a, W> {
    /// Of a type that has elements.
    ///
    /// # Errors
    /// The memory does not fit the type.
    pub(crate) fn new(dtype: DataType, bytes: &'a mut [u8]) -> Result<Self, Fault> {
        check(dtype, bytes)?;
        Ok(Self { dtype, bytes, wide: PhantomData })
    }

    /// One element that was written before.
    pub(crate) fn get(&self, index: usize) -> W {
        Numbers { dtype: self.dtype, bytes: self.bytes, wide: PhantomData }.get(index)
    }

    /// Elements that were written before and lie behind one another.
    pub(crate) fn read(&self, first: usize, to: &mut [W]) {
        Numbers { dtype: self.dtype, bytes: self.bytes, wide: PhantomData }.read(first, 1, to);
    }

    /// Writes one element. Panics when there is none.
    pub(crate) fn set(&mut self, index: usize, value: W) {
        W::write(self, index, 1, &[value]);
    }

    /// Copies one element of the same type. Panics when there is none, or it is of another size.
    pub(crate) fn set_bytes(&mut self, index: usize, from: &[u8]) {
        self.bytes[index * from.len()..][..from.len()].copy_from_slice(from);
    }

    /// Writes the element that is nearest to a float. Panics when there is none.
    pub(crate) fn set_float(&mut self, index: usize, value: f64) {
        NumbersMut { dtype: self.dtype, bytes: &mut *self.bytes, wide: PhantomData }
            .set(index, value);
    }

    /// Writes elements that lie behind one another. Panics when there are fewer.
    pub(crate) fn write(&mut self, first: usize, from: &[W]) {
        W::write(self, first, 1, from);
    }

    /// The same, each `stride` behind the one before.
    pub(crate) fn write_every(&mut self, first: usize, stride: usize, from: &[W]) {
        W::write(self, first, stride, from);
    }

    /// Writes what `of` makes of as many elements of `from`, one by one.
    pub(crate) fn each<V: Wide>(
        &mut self,
        from: Numbers<'_, V>,
        count: usize,
        of: &dyn Fn(V) -> W,
    ) {
        let (mut read, mut written) = ([V::ZERO; BLOCK], [W::ZERO; BLOCK]);
        for begin in (0..count).step_by(BLOCK) {
            let own = BLOCK.min(count - begin);
            from.read(begin, 1, &mut read[..own]);
            written.iter_mut().zip(&read[..own]).for_each(|(to, x)| *to = of(*x));
            self.write(begin, &written[..own]);
        }
    }
}

/// One element by one, with its type looked up for each: a tenth of the code of a loop a type.
macro_rules! one_by_one {
    ($count:expr, |$place:ident| $body:expr) => {
        for $place in 0..$count {
            let own: Result<(), Fault> = $body;
            debug_assert!(own.is_ok());
        }
    };
}

/// Reads as [`Numbers::read`].
fn strided<T: Copy, W: Copy>(
    from: &[T],
    first: usize,
    stride: usize,
    to: &mut [W],
    of: impl Fn(T) -> W,
) {
    if to.is_empty() {
        return;
    }
    let from = &from[first..=first + stride * (to.len() - 1)];
    match stride {
        0 => to.fill(of(from[0])),
        1 => to.iter_mut().zip(from).for_each(|(to, x)| *to = of(*x)),
        _ => to.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, x)| *to = of(*x)),
    }
}

/// Writes as [`NumbersMut::write_every`].
fn spread<T: Copy, W: Copy>(
    to: &mut [T],
    first: usize,
    stride: usize,
    from: &[W],
    of: impl Fn(W) -> T,
) {
    if from.is_empty() {
        return;
    }
    let to = &mut to[first..=first + stride * (from.len() - 1)];
    match stride {
        1 => to.iter_mut().zip(from).for_each(|(to, x)| *to = of(*x)),
        _ => to.iter_mut().step_by(stride).zip(from).for_each(|(to, x)| *to = of(*x)),
    }
}

/// The sum of products of two lists. Four sums at once: none waits for the one before.
#[inline(never)]
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (fours, rest) = a.as_chunks::<4>();
    let (others, other_rest) = b[..a.len()].as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (x, y) in fours.iter().zip(others) {
        for (sum, (x, y)) in sums.iter_mut().zip(x.iter().zip(y)) {
            *sum += x * y;
        }
    }
    let rest = rest.iter().zip(other_rest).fold(0.0, |sum, (x, y)| sum + x * y);
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// Calls `$body` with `$T` as the type of whole numbers that has the number `$dtype`.
macro_rules! with_whole {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_type!($dtype, $T => $body, INT32 = i32, INT64 = i64, INT8 = i8, INT16 = i16,
            UINT8 = u8, UINT16 = u16, UINT32 = u32, UINT64 = u64)
    };
}

/// Calls `$body` with `$T` as the type of floats that has the number `$dtype`.
macro_rules! with_float {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_type!($dtype, $T => $body, FLOAT = f32, DOUBLE = f64, FLOAT16 = F16, BF16 = Bf16)
    };
}

impl Wide for f64 {
    #[inline(never)]
    fn read(from: Numbers<'_, Self>, first: usize, stride: usize, to: &mut [Self]) {
        if is_float(from.dtype) {
            let read: Result<(), Fault> = with_float!(from.dtype, T => {
                let own = elements::<T>(from.bytes).unwrap_or_default();
                strided(own, first, stride, to, T::to_f64);
                Ok(())
            });
            debug_assert!(read.is_ok(), "{:?}", from.dtype);
            return;
        }
        one_by_one!(to.len(), |place| {
            let at = first + place * stride;
            if from.dtype == DataType::BOOL {
                to[place] = Self::from(u8::from(from.bytes[at] != 0));
                Ok(())
            } else {
                with_whole!(from.dtype, T => {
                    to[place] = elements::<T>(from.bytes).unwrap_or_default()[at].to_f64();
                    Ok(())
                })
            }
        });
    }

    #[inline(never)]
    fn write(to: &mut NumbersMut<'_, Self>, first: usize, stride: usize, from: &[Self]) {
        if is_float(to.dtype) {
            let written: Result<(), Fault> = with_float!(to.dtype, T => {
                let own = elements_mut::<T>(to.bytes).unwrap_or_default();
                spread(own, first, stride, from, T::of_f64);
                Ok(())
            });
            debug_assert!(written.is_ok(), "{:?}", to.dtype);
            return;
        }
        one_by_one!(from.len(), |place| {
            let at = first + place * stride;
            if to.dtype == DataType::BOOL {
                to.bytes[at] = u8::from(from[place] != 0.0);
                Ok(())
            } else {
                with_whole!(to.dtype, T => {
                    elements_mut::<T>(to.bytes).unwrap_or_default()[at] = T::of_f64(from[place]);
                    Ok(())
                })
            }
        });
    }

    fn ends(_dtype: DataType) -> (Self, Self) {
        (Self::NEG_INFINITY, Self::INFINITY)
    }
}

impl Wide for i128 {
    #[inline(never)]
    fn read(from: Numbers<'_, Self>, first: usize, stride: usize, to: &mut [Self]) {
        one_by_one!(to.len(), |place| {
            let at = first + place * stride;
            if from.dtype == DataType::BOOL {
                to[place] = Self::from(from.bytes[at] != 0);
                Ok(())
            } else {
                with_whole!(from.dtype, T => {
                    to[place] = elements::<T>(from.bytes).unwrap_or_default()[at].into();
                    Ok(())
                })
            }
        });
    }

    #[inline(never)]
    fn write(to: &mut NumbersMut<'_, Self>, first: usize, stride: usize, from: &[Self]) {
        one_by_one!(from.len(), |place| {
            let at = first + place * stride;
            if to.dtype == DataType::BOOL {
                to.bytes[at] = u8::from(from[place] != 0);
                Ok(())
            } else {
                with_whole!(to.dtype, T => {
                    #[allow(clippy::cast_possible_truncation, reason = "the lowest bits")]
                    #[allow(clippy::cast_sign_loss, reason = "the lowest bits are meant")]
                    let own = from[place] as T;
                    elements_mut::<T>(to.bytes).unwrap_or_default()[at] = own;
                    Ok(())
                })
            }
        });
    }

    fn ends(dtype: DataType) -> (Self, Self) {
        let ends: Result<(Self, Self), Fault> =
            with_whole!(dtype, T => Ok((T::MIN.into(), T::MAX.into())));
        ends.unwrap_or((0, 1))
    }
}

/// Calls `$body` with `$W` as the wide type of the elements of `$dtype`.
macro_rules! with_wide {
    ($dtype:expr, $W:ident => $body:expr) => {
        if $crate::element::is_float($dtype) {
            type $W = f64;
            $body
        } else {
            type $W = i128;
            $body
        }
    };
}
pub(crate) use with_wide;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aligned::AlignedBytes;
    use crate::cast::bytes_of;
    use crate::half::{Bf16, F16};
    use crate::tensor::element_size;

    const TYPES: [DataType; 12] = [
        DataType::FLOAT,
        DataType::DOUBLE,
        DataType::FLOAT16,
        DataType::BF16,
        DataType::INT8,
        DataType::INT16,
        DataType::INT32,
        DataType::INT64,
        DataType::UINT8,
        DataType::UINT16,
        DataType::UINT32,
        DataType::UINT64,
    ];

    /// What is read of what was written.
    fn there_and_back<W: Wide>(dtype: DataType, values: &[W]) -> Vec<W> {
        let size = element_size(dtype).unwrap();
        let mut bytes = AlignedBytes::zeroed(values.len() * size);
        NumbersMut::new(dtype, &mut bytes).unwrap().write(0, values);
        let mut read = vec![W::ONE; values.len()];
        Numbers::new(dtype, &bytes).unwrap().read(0, 1, &mut read);
        read
    }

    #[test]
    fn every_type_keeps_its_ends_and_whole_numbers_wrap() {
        for dtype in TYPES {
            let small = [0.0, 1.0, 2.0, 100.0];
            assert_eq!(there_and_back(dtype, &small), small, "{dtype:?}");
            if crate::element::is_float(dtype) {
                let strange = there_and_back(dtype, &[f64::INFINITY, f64::NAN, -0.5]);
                assert!(strange[0] == f64::INFINITY && strange[1].is_nan() && strange[2] == -0.5);
                continue;
            }
            let (low, high) = i128::ends(dtype);
            assert_eq!(
                there_and_back(dtype, &[low, high, high + 1, low - 1]),
                [low, high, low, high]
            );
            let beyond = there_and_back(dtype, &[f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
            assert_eq!(beyond, [high.to_f64(), low.to_f64(), 0.0], "{dtype:?}");
        }
        assert_eq!(there_and_back(DataType::BOOL, &[0, 1, 7, -1]), [0, 1, 1, 1]);
        assert_eq!(there_and_back(DataType::BOOL, &[0.0, 0.5]), [0.0, 1.0]);
    }

    #[test]
    fn floats_of_16_bits_are_rounded_once() {
        // Halfway between two, which the sum of f32 is exactly.
        let (half, brain) = (F16(0x3c00).to_f64(), Bf16(0x3f80).to_f64());
        assert_eq!(there_and_back(DataType::FLOAT16, &[half + 2f64.powi(-11)]), [half]);
        assert_eq!(there_and_back(DataType::BF16, &[brain + 2f64.powi(-8)]), [brain]);
    }

    #[test]
    fn steps_and_blocks() {
        let values: Vec<i32> = (0..200).collect();
        let from = Numbers::<i128>::new(DataType::INT32, bytes_of(&values)).unwrap();
        let mut read = [0; 3];
        from.read(2, 99, &mut read[..2]);
        assert_eq!(read, [2, 101, 0]);
        from.read(7, 0, &mut read);
        assert_eq!(read, [7, 7, 7]);
        from.read(500, 1, &mut []);
        let mut bytes = AlignedBytes::zeroed(200);
        let mut to = NumbersMut::<i128>::new(DataType::UINT8, &mut bytes).unwrap();
        to.each(from, 200, &|x: i128| x + 100);
        assert!((0..200).all(|at| to.get(at) == (i128::try_from(at).unwrap() + 100) % 256));
    }

    #[test]
    fn memory_that_does_not_fit() {
        let bytes = AlignedBytes::zeroed(16);
        let new = |dtype, bytes| Numbers::<f64>::new(dtype, bytes).map(|_| ());
        assert_eq!(new(DataType::FLOAT, &bytes[..3]), Err(Fault::Memory));
        assert_eq!(new(DataType::FLOAT, &bytes[2..6]), Err(Fault::Memory));
        assert_eq!(new(DataType::UNDEFINED, &bytes[..]), Err(Fault::Type(DataType::UNDEFINED)));
    }
}
