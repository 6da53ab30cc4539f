//! DFT and STFT: what waves a signal consists of, and back.

use crate::DataType;
use crate::cast::elements_mut;
use crate::numbers::{Numbers, NumbersMut};
use crate::ops::fourier::{Transform, flops};
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, axis, before, types};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

const FLOATS: types::Types = &[(DataType::FLOAT, 1), (DataType::DOUBLE, 1)];

/// The line of DFT.
pub static DFT: OpEntry = OpEntry {
    name: "DFT",
    code: 190,
    versions: &[17, 20],
    attributes: &[before("axis", 20), always("inverse"), always("onesided")],
    inputs: (1, 3),
    types: FLOATS,
    refused: "`dft_length` or `axis` that is computed from data",
    import: dft,
    decode: |from| {
        let (axis, length) = (from.size()?, from.size()?);
        Ok(Box::new(Dft { axis, length, inverse: from.flag()?, onesided: from.flag()? }))
    },
    ..OpEntry::BASE
};

/// The line of STFT.
pub static STFT: OpEntry = OpEntry {
    name: "STFT",
    code: 191,
    versions: &[17],
    attributes: &[always("onesided")],
    inputs: (2, 4),
    operands: (1, 2),
    types: FLOATS,
    refused: "`frame_step` or `frame_length` that is computed from data",
    import: stft,
    decode: |from| {
        let own = Stft { step: from.size()?, length: from.size()?, onesided: from.flag()? };
        if own.step == 0 || own.length == 0 {
            return Err(OpError::params(format!("{own:?}")));
        }
        Ok(Box::new(own))
    },
    ..OpEntry::BASE
};

/// One number of an input that has to be known.
fn one(node: &Node<'_>, index: usize, name: &'static str) -> Result<i64, OpError> {
    match node.integers(index, name)?[..] {
        [number] => Ok(number),
        _ => Err(OpError::shape(format!("input {index} `{name}` is not one number"))),
    }
}

/// The same, from 1 on.
fn positive(node: &Node<'_>, index: usize, name: &'static str) -> Result<usize, OpError> {
    let given = one(node, index, name)?;
    let own = usize::try_from(given).ok().filter(|own| *own > 0);
    own.ok_or_else(|| OpError::shape(format!("`{name}` is {given}; expected 1 or more")))
}

/// The transform of each lane along an axis; the last dim has real and imaginary part, or the real
/// part alone.
#[derive(Clone, Copy, Debug)]
pub struct Dft {
    axis: usize,
    /// Length of the transform; 0 for what follows from the dim.
    length: usize,
    inverse: bool,
    /// Of a real signal, the half that says all.
    onesided: bool,
}

fn dft(node: &Node<'_>) -> Result<Imported, OpError> {
    let shape = node.input(0)?.info.shape;
    let given = if node.opset < 20 {
        if node.has(2) {
            let (found, supported) = (node.inputs.len(), "1 to 2 before opset 20".to_owned());
            return Err(OpError::Count { what: "inputs", found, supported });
        }
        node.int("axis")?.unwrap_or(1)
    } else if node.has(2) {
        one(node, 2, "axis")?
    } else {
        -2
    };
    let length = if node.has(1) { positive(node, 1, "dft_length")? } else { 0 };
    let (inverse, onesided) = (node.flag("inverse", false)?, node.flag("onesided", false)?);
    let axis = axis("axis", given, shape.rank())?;
    if axis + 1 == shape.rank() {
        return Err(OpError::attribute("axis", given, "any dim but the last one"));
    }
    Ok(Imported::first(Dft { axis, length, inverse, onesided }))
}

impl Dft {
    /// Length of the transform, and numbers of it that are results.
    fn sizes(&self, x: &Shape) -> Result<(usize, usize), OpError> {
        let dims = x.dims();
        let known = dims.get(self.axis).zip(dims.last());
        let fits = self.axis.saturating_add(1) < dims.len();
        let Some((dim, 1 | 2)) = known.filter(|_| fits) else {
            let what = format!("{x} along dim {}: the last dim is 1 or 2", self.axis);
            return Err(OpError::shape(what));
        };
        let length = match self.length {
            0 if self.inverse && self.onesided => dim.saturating_sub(1) * 2,
            0 => *dim,
            own => own,
        };
        if length == 0 {
            return Err(OpError::shape(format!("{x}: a transform of no numbers")));
        }
        let half = self.onesided && !self.inverse;
        Ok((length, if half { length / 2 + 1 } else { length }))
    }
}

/// Memory for transforms of a length.
fn memory(scratch: &mut [u8], length: usize) -> Result<&mut [f64], Fault> {
    let own = scratch.get_mut(..Transform::bytes(length)).ok_or(Fault::Memory)?;
    elements_mut(own).ok_or(Fault::Memory)
}

impl Op for Dft {
    fn code(&self) -> u16 {
        const { DFT.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.axis);
        into.size(self.length);
        into.flag(self.inverse);
        into.flag(self.onesided);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let x = inputs[0].shape;
        let (_, places) = self.sizes(&x)?;
        let mut dims = x.dims().to_vec();
        let last = dims.len() - 1;
        (dims[self.axis], dims[last]) = (places, if self.inverse && self.onesided { 1 } else { 2 });
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let shape = inputs.info(0).shape;
        let (length, places) = self.sizes(&shape).map_err(|_| Fault::Memory)?;
        let (dims, x) = (shape.dims(), inputs.numbers::<f64>(0)?);
        let (dim, parts) = (dims[self.axis], dims[dims.len() - 1]);
        let behind: usize = dims[self.axis + 1..dims.len() - 1].iter().product();
        let to_parts = if self.inverse && self.onesided { 1 } else { 2 };
        let lanes = output.info.shape.elements() / to_parts / places;
        let mut to = NumbersMut::<f64>::new(output.info.dtype, output.bytes)?;
        let memory = memory(output.scratch, length)?;
        let mut transform = Transform::new(length, memory).ok_or(Fault::Memory)?;
        // Of the conjugate it goes back.
        let sign = if self.inverse { -1.0 } else { 1.0 };
        #[expect(clippy::cast_precision_loss, reason = "a count of elements")]
        let part = if self.inverse { 1.0 / length as f64 } else { 1.0 };
        for lane in 0..lanes {
            let (outer, inner) = (lane / behind, lane % behind);
            let place = |dim: usize, at: usize| (outer * dim + at) * behind + inner;
            let signal = transform.signal();
            for (at, own) in signal.iter_mut().enumerate() {
                let from = place(dim, at) * parts;
                *own = match parts {
                    _ if at >= dim => [0.0; 2],
                    1 => [x.get(from), 0.0],
                    _ => [x.get(from), sign * x.get(from + 1)],
                };
            }
            if self.inverse && self.onesided {
                mirror(signal);
            }
            transform.run();
            for (at, [re, im]) in transform.signal()[..places].iter().enumerate() {
                let own = [re * part, sign * im * part];
                to.write(place(places, at) * to_parts, &own[..to_parts]);
            }
        }
        Ok(())
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let Ok((length, places)) = self.sizes(&inputs[0].shape) else { return 0 };
        flops(length).saturating_mul((output.shape.elements() / places) as u64)
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], output: &TensorInfo) -> usize {
        let length = self.sizes(&inputs[0].shape).map_or(0, |(length, _)| length);
        if output.shape.elements() == 0 { 0 } else { Transform::bytes(length) }
    }
}

/// The second half of a real signal's spectrum is the first one backwards.
fn mirror(spectrum: &mut [[f64; 2]]) {
    let length = spectrum.len();
    for at in 0..=length / 2 {
        let other = (length - at) % length;
        if other == at {
            spectrum[at][1] = 0.0;
        } else {
            spectrum[other] = [spectrum[at][0], -spectrum[at][1]];
        }
    }
}

/// Transforms of pieces of a signal.
#[derive(Clone, Copy, Debug)]
pub struct Stft {
    /// From the begin of a piece to that of the next one.
    step: usize,
    /// Of a piece.
    length: usize,
    onesided: bool,
}

fn stft(node: &Node<'_>) -> Result<Imported, OpError> {
    let step = positive(node, 1, "frame_step")?;
    let length = match node.inputs.get(2).copied().flatten() {
        _ if node.has(3) => positive(node, 3, "frame_length")?,
        Some(window) => window.info.shape.elements(),
        None => node.input(0)?.info.shape.dims().get(1).copied().unwrap_or(0),
    };
    if length == 0 {
        return Err(OpError::shape("a transform of no numbers"));
    }
    let op = Stft { step, length, onesided: node.flag("onesided", true)? };
    let operands = if node.has(2) { vec![0, 2] } else { vec![0] };
    Ok(Imported { op: Box::new(op), operands })
}

impl Stft {
    fn places(&self) -> usize {
        if self.onesided { self.length / 2 + 1 } else { self.length }
    }
}

impl Op for Stft {
    fn code(&self) -> u16 {
        const { STFT.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.step);
        into.size(self.length);
        into.flag(self.onesided);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let x = inputs[0].shape;
        let &[batch, samples, 1 | 2] = x.dims() else {
            return Err(OpError::shape(format!("{x} is no signal [N, samples, 1 or 2]")));
        };
        if let Some(window) = inputs.get(1)
            && window.shape.dims() != [self.length]
        {
            let what = format!("a window of {} for pieces of {}", window.shape, self.length);
            return Err(OpError::shape(what));
        }
        let Some(room) = samples.checked_sub(self.length) else {
            return Err(OpError::shape(format!("pieces of {} in {x}", self.length)));
        };
        let dims = [batch, room / self.step + 1, self.places(), 2];
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let &[_, samples, parts] = inputs.dims(0) else { return Err(Fault::Memory) };
        let &[batches, pieces, places, _] = output.info.shape.dims() else {
            return Err(Fault::Memory);
        };
        let x = inputs.numbers::<f64>(0)?;
        let window: Option<Numbers<'_, f64>> = inputs.optional_numbers(1)?;
        let mut to = NumbersMut::<f64>::new(output.info.dtype, output.bytes)?;
        let memory = memory(output.scratch, self.length)?;
        let mut transform = Transform::new(self.length, memory).ok_or(Fault::Memory)?;
        for piece in 0..batches * pieces {
            let first = piece / pieces * samples + piece % pieces * self.step;
            for (at, own) in transform.signal().iter_mut().enumerate() {
                let factor = window.map_or(1.0, |window| window.get(at));
                let from = (first + at) * parts;
                let imaginary = if parts == 1 { 0.0 } else { x.get(from + 1) };
                *own = [x.get(from) * factor, imaginary * factor];
            }
            transform.run();
            let own = transform.signal()[..places].as_flattened();
            to.write(piece * 2 * places, own);
        }
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let pieces = output.shape.elements() / 2 / self.places();
        flops(self.length).saturating_mul(pieces as u64)
    }

    fn scratch_bytes(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> usize {
        if output.shape.elements() == 0 { 0 } else { Transform::bytes(self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, Value, assert_close, float, int64, noise};

    fn scalar(value: i64) -> Value {
        int64(&[], &[value])
    }

    /// There and back is what was there, of any length and along any axis.
    #[test]
    fn there_and_back() {
        for (length, axis) in (1..=33).flat_map(|length| [(length, 0), (length, 1), (length, 2)]) {
            let mut dims = [2, 3, 2, 2];
            dims[axis] = length;
            let count = dims.iter().product();
            let x = float(&dims, &noise(count, 1));
            let own = i64::try_from(axis).unwrap();
            let there = Case::new(&DFT, 20).variable(x.clone()).absent().input(scalar(own)).run();
            let back = Case::new(&DFT, 17).int("axis", own).int("inverse", 1).variable(there);
            assert_close(&back.run(), &x, 1e-6);
            let real = float(&dims[..3], &noise(count / 2, 2));
            let real = Value { info: TensorInfo::new(DataType::FLOAT, one_part(&dims)), ..real };
            let half = Case::new(&DFT, 20).int("onesided", 1).variable(real.clone());
            let half = half.absent().input(scalar(own)).run();
            assert_eq!(half.info.shape.dims()[axis], length / 2 + 1);
            let back = Case::new(&DFT, 20).int("onesided", 1).int("inverse", 1).variable(half);
            let back = back.input(scalar(i64::try_from(length).unwrap())).input(scalar(own - 4));
            assert_close(&back.run(), &real, 1e-6);
        }
    }

    fn one_part(dims: &[usize; 4]) -> Shape {
        Shape::new(&[dims[0], dims[1], dims[2], 1]).unwrap()
    }

    #[test]
    fn a_length_cuts_or_fills_up() {
        let x = float(&[1, 3, 1], &[1.0, 2.0, 4.0]);
        let run = |length: i64| Case::new(&DFT, 17).variable(x.clone()).input(scalar(length)).run();
        let cut = float(&[1, 2, 2], &[3.0, 0.0, -1.0, 0.0]);
        assert_close(&run(2), &cut, 1e-6);
        let filled = float(&[1, 4, 2], &[7.0, 0.0, -3.0, -2.0, 3.0, 0.0, -3.0, 2.0]);
        assert_close(&run(4), &filled, 1e-6);
    }

    #[test]
    fn pieces_with_a_window() {
        let x = Value::new(&[1, 5, 1], &[1.0f64, 2.0, 3.0, 4.0, 5.0]);
        let own = Case::new(&STFT, 17).int("onesided", 0).variable(x).input(scalar(2));
        let found = own.variable(Value::new(&[2], &[1.0f64, 10.0])).run();
        let expected = [[21.0f64, 0.0, -19.0, 0.0], [43.0, 0.0, -37.0, 0.0]].concat();
        assert_eq!(found, Value::new(&[1, 2, 2, 2], &expected));
        let complex = float(&[1, 2, 2], &[1.0, 2.0, 3.0, 5.0]);
        let own = Case::new(&STFT, 17).variable(complex).input(scalar(1)).absent();
        let found = own.input(scalar(2)).run();
        assert_close(&found, &float(&[1, 1, 2, 2], &[4.0, 7.0, -2.0, -3.0]), 1e-6);
    }

    #[test]
    fn what_is_refused() {
        let x = float(&[1, 3, 1], &[0.0; 3]);
        let dft = |opset: u32| Case::new(&DFT, opset).variable(x.clone());
        let last = dft(20).absent().input(scalar(-1));
        assert!(last.refused().contains("any dim but the last one"), "{}", last.refused());
        let early = dft(17).absent().input(scalar(1));
        assert!(early.refused().contains("1 to 2 before opset 20"));
        let none = dft(20).input(scalar(0));
        assert!(none.refused().contains("`dft_length` is 0"), "{}", none.refused());
        let three = Case::new(&DFT, 20).variable(float(&[1, 3, 3], &[0.0; 9]));
        assert!(three.refused().contains("the last dim is 1 or 2"));
        let one = Case::new(&DFT, 20).int("inverse", 1).int("onesided", 1);
        let one = one.variable(float(&[1, 1, 2], &[0.0; 2]));
        assert!(one.refused().contains("a transform of no numbers"));
        let data = dft(20).variable(scalar(2));
        assert!(data.refused().contains("dft_length"), "{}", data.refused());
        let long = Case::new(&STFT, 17).variable(x.clone()).input(scalar(1)).absent();
        assert!(long.clone().input(scalar(4)).refused().contains("pieces of 4 in [1, 3, 1]"));
        let step = Case::new(&STFT, 17).variable(x.clone()).input(scalar(0));
        assert!(step.refused().contains("`frame_step` is 0"));
        let window = Case::new(&STFT, 17).variable(x).input(scalar(1));
        let window = window.variable(float(&[2], &[1.0; 2])).input(scalar(3));
        assert!(window.refused().contains("a window of [2] for pieces of 3"));
    }
}
