//! Cast, CastLike and BitCast: elements as another type.
//!
//! A float becomes the whole number without its fraction, the nearest end of the type when it is
//! beyond it, and 0 when it is none; a whole number keeps its lowest bits; a bool is 0 or 1, and
//! whatever is not 0 is true.

use crate::DataType;
use crate::element::{Element, with_element};
use crate::ops::movement::copy;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, since, types};
use crate::params::{ParamReader, ParamWriter};
use crate::tensor::{Fault, Inputs, Output, TensorInfo, element_size};

/// The line of Cast.
pub static CAST: OpEntry = OpEntry {
    name: "Cast",
    code: 88,
    versions: &[1, 6, 9, 13, 19, 21, 23, 24, 25, 28],
    attributes: &[always("to"), since("saturate", 19), since("round_mode", 24)],
    refused: "texts, floats of 8 bits, numbers of 2 and 4 bits; before opset 6, where types are \
              texts",
    import: |node| Cast::import(node, Form::Value),
    decode: |from| Cast::decode(from, Form::Value),
    ..OpEntry::BASE
};

/// The line of CastLike.
pub static CAST_LIKE: OpEntry = OpEntry {
    name: "CastLike",
    code: 89,
    versions: &[15, 19, 21, 23, 24, 25],
    attributes: &[since("saturate", 19), since("round_mode", 24)],
    inputs: (2, 2),
    refused: "as Cast",
    import: |node| Cast::import(node, Form::Like),
    decode: |from| Cast::decode(from, Form::Like),
    ..OpEntry::BASE
};

/// The line of BitCast.
pub static BIT_CAST: OpEntry = OpEntry {
    name: "BitCast",
    code: 90,
    versions: &[26],
    attributes: &[always("to")],
    refused: "types of other sizes",
    import: |node| Cast::import(node, Form::Bits),
    decode: |from| Cast::decode(from, Form::Bits),
    ..OpEntry::BASE
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Value,
    Like,
    Bits,
}

/// Elements as another type.
#[derive(Clone, Copy, Debug)]
pub struct Cast {
    form: Form,
    to: DataType,
}

impl Cast {
    fn import(node: &Node<'_>, form: Form) -> Result<Imported, OpError> {
        let to = if form == Form::Like {
            node.input(1)?.info.dtype
        } else {
            node.data_type("to")?.ok_or_else(|| OpError::attribute("to", "is not given", "a type"))?
        };
        Ok(Imported::first(Self { form, to }))
    }

    fn decode(from: &mut ParamReader<'_>, form: Form) -> Result<Box<dyn Op>, OpError> {
        let to = DataType(from.u32()?.cast_signed());
        if element_size(to).is_none() {
            return Err(OpError::params(format!("type {} has no elements", to.0)));
        }
        Ok(Box::new(Self { form, to }))
    }
}

impl Op for Cast {
    fn entry(&self) -> &'static OpEntry {
        match self.form {
            Form::Value => &CAST,
            Form::Like => &CAST_LIKE,
            Form::Bits => &BIT_CAST,
        }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.u32(self.to.0.cast_unsigned());
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (from, to) = (inputs[0].dtype, self.to);
        if self.form == Form::Bits && element_size(from) != element_size(to) {
            return Err(OpError::shape("elements of another size"));
        }
        Ok(TensorInfo::new(to, inputs[0].shape))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (from, to) = (inputs.info(0).dtype, self.to);
        if self.form == Form::Bits || from == to {
            return copy(inputs, output);
        }
        if to == DataType::BOOL {
            return with_element!(from, T => {
                let pairs = output.elements::<u8>()?.iter_mut().zip(inputs.elements::<T>(0)?);
                pairs.for_each(|(to, x)| *to = u8::from(*x != T::ZERO));
                Ok(())
            });
        }
        let blocks = output.info.shape.elements().div_ceil(BLOCK);
        let whole = !types::is_float(from) && !types::is_float(to);
        for block in 0..blocks {
            if whole {
                let values = read(inputs, block, Whole)?;
                with_element!(to, T => write(output, block, &values, T::of_i64))?;
            } else {
                let values = read(inputs, block, Fraction)?;
                with_element!(to, T => write(output, block, &values, T::of_f64))?;
            }
        }
        Ok(())
    }
}

/// Elements that are taken together: all types meet in one between.
const BLOCK: usize = 64;

/// What lies between two types.
trait Between: Copy {
    type Value: Copy + Default;
    fn of<T: Element>(x: T) -> Self::Value;
    fn bool(x: bool) -> Self::Value;
}

#[derive(Clone, Copy)]
struct Whole;

impl Between for Whole {
    type Value = i64;

    #[inline(always)]
    fn of<T: Element>(x: T) -> i64 {
        x.to_i64()
    }

    fn bool(x: bool) -> i64 {
        i64::from(x)
    }
}

#[derive(Clone, Copy)]
struct Fraction;

impl Between for Fraction {
    type Value = f64;

    #[inline(always)]
    fn of<T: Element>(x: T) -> f64 {
        x.to_f64()
    }

    fn bool(x: bool) -> f64 {
        f64::from(u8::from(x))
    }
}

fn read<B: Between>(
    inputs: &dyn Inputs,
    block: usize,
    _between: B,
) -> Result<[B::Value; BLOCK], Fault> {
    let mut values = [B::Value::default(); BLOCK];
    if inputs.info(0).dtype == DataType::BOOL {
        let from = inputs.bytes(0).chunks(BLOCK).nth(block).unwrap_or_default();
        values.iter_mut().zip(from).for_each(|(to, x)| *to = B::bool(*x != 0));
        return Ok(values);
    }
    with_element!(inputs.info(0).dtype, T => {
        let from = inputs.elements::<T>(0)?.chunks(BLOCK).nth(block).unwrap_or_default();
        values.iter_mut().zip(from).for_each(|(to, x)| *to = B::of(*x));
        Ok(values)
    })
}

fn write<T: Element, V: Copy>(
    output: &mut Output<'_>,
    block: usize,
    values: &[V; BLOCK],
    of: impl Fn(V) -> T,
) -> Result<(), Fault> {
    let to = output.elements::<T>()?.chunks_mut(BLOCK).nth(block).unwrap_or_default();
    to.iter_mut().zip(values).for_each(|(to, value)| *to = of(*value));
    Ok(())
}
