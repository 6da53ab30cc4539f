//! Max, Min, Sum and Mean of any number of tensors, element by element.

use crate::DataType;
use crate::element::Element;
use crate::numbers::{BLOCK, Wide, with_wide};
use crate::ops::broadcast::Walk;
use crate::ops::reduce::no_number;
use crate::ops::types::Types;
use crate::ops::{AttributeSpec, Imported, Node, Op, OpEntry, OpError, before, types};
use crate::params::{ParamReader, ParamWriter};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// Attributes of the old definitions.
const ATTRIBUTES: &[AttributeSpec] = &[before("consumed_inputs", 6)];

const fn entry(
    name: &'static str,
    code: u16,
    versions: &'static [u32],
    types: Types,
    import: fn(&Node<'_>) -> Result<Imported, OpError>,
    decode: fn(&mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError>,
) -> OpEntry {
    let (inputs, operands) = ((1, usize::MAX), (1, usize::MAX));
    let attributes = ATTRIBUTES;
    OpEntry {
        name,
        code,
        versions,
        attributes,
        inputs,
        operands,
        types,
        import,
        decode,
        ..OpEntry::BASE
    }
}

macro_rules! variadic {
    ($($entry:ident $name:ident = $code:literal, $versions:expr, $types:expr;)+) => {
        $(#[doc = concat!("The line of ", stringify!($name), ".")]
        pub static $entry: OpEntry = entry(stringify!($name), $code, &$versions, $types,
            |node| Variadic::import(Kind::$name, node),
            |from| Variadic::decode(Kind::$name, from));)+
    };
}
variadic! {
    MAX Max = 83, [1, 6, 8, 12, 13], &types::numbers(12, 12, 13);
    MIN Min = 84, [1, 6, 8, 12, 13], &types::numbers(12, 12, 13);
    SUM Sum = 85, [1, 6, 8, 13], &types::floats(13);
    MEAN Mean = 86, [1, 6, 8, 13], &types::floats(13);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Max,
    Min,
    Sum,
    Mean,
}

/// One number of several.
#[derive(Clone, Copy, Debug)]
pub struct Variadic {
    kind: Kind,
    /// By numpy's rule; before opset 8 shapes are equal.
    broadcast: bool,
}

impl Variadic {
    fn import(kind: Kind, node: &Node<'_>) -> Result<Imported, OpError> {
        Ok(Imported::all(Self { kind, broadcast: node.opset >= 8 }, node))
    }

    fn decode(kind: Kind, from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        Ok(Box::new(Self { kind, broadcast: from.flag()? }))
    }

    /// What becomes of two elements.
    fn of<T: Element>(self, a: T, b: T) -> T {
        match self.kind {
            // A NaN stays one.
            Kind::Max if a > b || no_number(a) => a,
            Kind::Min if a < b || no_number(a) => a,
            Kind::Max | Kind::Min => b,
            Kind::Sum | Kind::Mean => a.plus(b),
        }
    }

    fn compute<W: Wide>(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let shape = output.info.shape;
        let mut to = output.numbers::<W>()?;
        let (mut xs, mut sums) = ([W::ZERO; BLOCK], [W::ZERO; BLOCK]);
        for index in 0..inputs.count() {
            let from = inputs.numbers::<W>(index)?;
            let walk = Walk::new(&shape, [&shape, &inputs.info(index).shape]);
            walk.blocks(shape.elements(), &mut |first, count, [_, at], [_, stride]| {
                from.read(at, stride, &mut xs[..count]);
                if index > 0 {
                    to.read(first, &mut sums[..count]);
                    let pairs = xs.iter_mut().zip(&sums);
                    pairs.for_each(|(x, sum)| *x = self.of(*sum, *x));
                }
                to.write(first, &xs[..count]);
            });
        }
        if self.kind == Kind::Mean {
            let by = W::of_i64(i64::try_from(inputs.count()).unwrap_or(i64::MAX));
            for at in 0..shape.elements() {
                to.set(at, to.get(at).over(by));
            }
        }
        Ok(())
    }

    fn floats(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let shape = output.info.shape;
        let out = output.elements::<f32>()?;
        for index in 0..inputs.count() {
            let from = inputs.elements::<f32>(index)?;
            Walk::new(&shape, [&inputs.info(index).shape]).rows(out, |row, [at], [stride]| {
                for (place, to) in row.iter_mut().enumerate() {
                    let x = from[at + place * stride];
                    *to = if index == 0 { x } else { self.of(*to, x) };
                }
            });
        }
        if self.kind == Kind::Mean {
            #[expect(clippy::cast_precision_loss, reason = "a count of operands")]
            let by = inputs.count() as f32;
            out.iter_mut().for_each(|to| *to /= by);
        }
        Ok(())
    }
}

impl Op for Variadic {
    fn code(&self) -> u16 {
        match self.kind {
            Kind::Max => const { MAX.code },
            Kind::Min => const { MIN.code },
            Kind::Sum => const { SUM.code },
            Kind::Mean => const { MEAN.code },
        }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.flag(self.broadcast);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let mut shape = inputs[0].shape;
        for input in inputs {
            let own = input.shape;
            let both = shape.broadcast(&own).filter(|both| self.broadcast || *both == shape);
            let what = || OpError::shape(format!("{shape} and {own} do not broadcast"));
            shape = both.filter(|both| self.broadcast || *both == own).ok_or_else(what)?;
        }
        Ok(TensorInfo::new(inputs[0].dtype, shape))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        if output.info.dtype == DataType::FLOAT {
            return self.floats(inputs, output);
        }
        with_wide!(output.info.dtype, W => self.compute::<W>(inputs, output))
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        (inputs.len() * output.shape.elements()) as u64
    }
}
