//! Cast, CastLike and BitCast: elements as another type.
//!
//! A float becomes the whole number without its fraction, the nearest end of the type when it is
//! beyond it, and 0 when it is none; a whole number keeps its lowest bits; a bool is 0 or 1, and
//! whatever is not 0 is true.

use crate::DataType;
use crate::cast::Plain;
use crate::half::convert::{Half, narrow, widen};
use crate::half::{Bf16, F16};
use crate::ops::movement::copy;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, since, types};
use crate::params::{ParamReader, ParamWriter};
use crate::team;
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
    ..OpEntry::ROUNDS
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
    ..OpEntry::ROUNDS
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
    ..OpEntry::ROUNDS
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Value,
    Like,
    Bits,
}

/// Floats of 16 bits as float32, dealt out.
fn wide<H: Half + Plain>(inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
    let (x, team) = (inputs.elements::<H>(0)?, output.team);
    team::deal(team, output.elements::<f32>()?, (1, team::moved(1)), |first, to| {
        widen(&x[first..][..to.len()], to);
    });
    Ok(())
}

/// float32 as floats of 16 bits, dealt out.
fn near<H: Half + Plain>(inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
    let (x, team) = (inputs.elements::<f32>(0)?, output.team);
    team::deal(team, output.elements::<H>()?, (1, team::moved(1)), |first, to| {
        narrow(&x[first..][..to.len()], to);
    });
    Ok(())
}

/// Elements as another type.
#[derive(Clone, Copy, Debug)]
pub struct Cast {
    form: Form,
    to: DataType,
}

impl Cast {
    /// Elements as values of another type.
    #[must_use]
    pub fn to(to: DataType) -> Self {
        Self { form: Form::Value, to }
    }

    fn import(node: &Node<'_>, form: Form) -> Result<Imported, OpError> {
        let to = if form == Form::Like {
            node.input(1)?.info.dtype
        } else {
            node.data_type("to")?
                .ok_or_else(|| OpError::attribute("to", "is not given", "a type"))?
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
    fn code(&self) -> u16 {
        match self.form {
            Form::Value => const { CAST.code },
            Form::Like => const { CAST_LIKE.code },
            Form::Bits => const { BIT_CAST.code },
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
        match (from, to) {
            (DataType::FLOAT16, DataType::FLOAT) => return wide::<F16>(inputs, output),
            (DataType::BF16, DataType::FLOAT) => return wide::<Bf16>(inputs, output),
            (DataType::FLOAT, DataType::FLOAT16) => return near::<F16>(inputs, output),
            (DataType::FLOAT, DataType::BF16) => return near::<Bf16>(inputs, output),
            _ => {}
        }
        let count = output.info.shape.elements();
        if types::is_float(from) || types::is_float(to) {
            output.numbers::<f64>()?.each(inputs.numbers::<f64>(0)?, count, &|x| x);
        } else {
            output.numbers::<i128>()?.each(inputs.numbers::<i128>(0)?, count, &|x| x);
        }
        Ok(())
    }
}
