//! RotaryEmbedding: pairs of elements turned by angles, whose cosines and sines are given.

use crate::DataType;
use crate::ops::movement::copy;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always};
use crate::params::{ParamReader, ParamWriter};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "RotaryEmbedding",
    code: 142,
    versions: &[23],
    attributes: &[always("interleaved"), always("num_heads"), always("rotary_embedding_dim")],
    inputs: (3, 4),
    operands: (3, 4),
    types: &[(DataType::FLOAT, 1), (DataType::FLOAT16, 1), (DataType::BF16, 1)],
    mixed: &[(3, &[DataType::INT64])],
    import,
    decode,
    ..OpEntry::BASE
};

/// Pairs of elements that are turned.
#[derive(Clone, Copy, Debug)]
pub struct Rotary {
    interleaved: bool,
    /// Of an input of three dims.
    heads: usize,
    /// How many elements of a head are turned; all when 0.
    part: usize,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let count = |name: &str| {
        let given = node.int(name)?.unwrap_or(0);
        usize::try_from(given).map_err(|_| OpError::attribute(name, given, "0 or more"))
    };
    let interleaved = node.flag("interleaved", false)?;
    let own =
        Rotary { interleaved, heads: count("num_heads")?, part: count("rotary_embedding_dim")? };
    Ok(Imported::all(own, node))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let (interleaved, [heads, part]) = (from.flag()?, from.sizes()?);
    Ok(Box::new(Rotary { interleaved, heads, part }))
}

impl Rotary {
    /// Batches, heads, length and width, and how many of the width are turned.
    fn sizes(&self, dims: &[usize]) -> Option<([usize; 4], usize)> {
        let own = match *dims {
            [batches, heads, length, width] => [batches, heads, length, width],
            [batches, length, hidden] if self.heads > 0 && hidden.is_multiple_of(self.heads) => {
                [batches, self.heads, length, hidden / self.heads]
            }
            _ => return None,
        };
        let part = if self.part == 0 { own[3] } else { self.part };
        (part <= own[3] && part.is_multiple_of(2)).then_some((own, part))
    }

    fn compute(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let ([_, heads, length, width], part) = self.sizes(inputs.dims(0)).ok_or(Fault::Memory)?;
        let four = inputs.dims(0).len() == 4;
        let [x, cos, sin] = [inputs.numbers(0)?, inputs.numbers(1)?, inputs.numbers(2)?];
        let places = if inputs.count() > 3 { Some(inputs.indices(3)?) } else { None };
        let half = part / 2;
        copy(inputs, output)?;
        let mut to = output.numbers::<f64>()?;
        for row in 0..inputs.info(0).shape.elements() / width {
            let (batch, at) = if four {
                (row / length / heads, row % length)
            } else {
                (row / heads / length, row / heads % length)
            };
            let line = match &places {
                Some(places) => places.at(batch * length + at, inputs.dims(1)[0]),
                None => batch * length + at,
            };
            for pair in 0..half {
                let (cos, sin) = (cos.get(line * half + pair), sin.get(line * half + pair));
                let (a, b) =
                    if self.interleaved { (2 * pair, 2 * pair + 1) } else { (pair, pair + half) };
                let (a, b) = (row * width + a, row * width + b);
                let (x, y): (f64, f64) = (x.get(a), x.get(b));
                to.set(a, cos * x - sin * y);
                to.set(b, sin * x + cos * y);
            }
        }
        Ok(())
    }
}

impl Op for Rotary {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.flag(self.interleaved);
        into.sizes(&[self.heads, self.part]);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let shapes: Vec<_> = inputs.iter().map(|input| input.shape).collect();
        let refuse = || OpError::shape(format!("{shapes:?} do not fit"));
        let ([batches, _, length, _], part) = self.sizes(shapes[0].dims()).ok_or_else(refuse)?;
        let (cos, sin) = (shapes[1].dims(), shapes[2].dims());
        let fits = match shapes.get(3) {
            None => cos == [batches, length, part / 2],
            Some(places) => {
                let filled = matches!(*cos, [rows, half] if rows > 0 && half == part / 2);
                filled && places.dims() == [batches, length]
            }
        };
        if !fits || cos != sin {
            return Err(refuse());
        }
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        self.compute(inputs, output)
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        3 * output.shape.elements() as u64
    }
}
