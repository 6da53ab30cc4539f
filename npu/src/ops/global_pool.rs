//! GlobalMaxPool and GlobalLpPool: one number of each feature map.

use crate::DataType;
use crate::element::Element;
use crate::ops::lanes::Lanes;
use crate::ops::pool::power;
use crate::ops::{Imported, Op, OpEntry, OpError, always, types};
use crate::params::ParamWriter;
use crate::shape::{RANK_MAX, Shape};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of GlobalMaxPool.
pub static MAX: OpEntry = OpEntry {
    name: "GlobalMaxPool",
    code: 106,
    versions: &[1, 22],
    types: &types::floats(22),
    import: |_| Ok(Imported::first(Global { p: None })),
    decode: |_| Ok(Box::new(Global { p: None })),
    ..OpEntry::BASE
};

/// The line of GlobalLpPool.
pub static LP: OpEntry = OpEntry {
    name: "GlobalLpPool",
    code: 107,
    versions: &[1, 2, 22],
    attributes: &[always("p")],
    types: &types::floats(22),
    import: |node| Ok(Imported::first(Global { p: Some(power(node)?) })),
    decode: |from| Ok(Box::new(Global { p: Some(from.f32()?) })),
    ..OpEntry::BASE
};

/// One number of each feature map: the highest, or the `p`-norm.
#[derive(Clone, Copy, Debug)]
pub struct Global {
    p: Option<f32>,
}

impl Op for Global {
    fn code(&self) -> u16 {
        if self.p.is_some() { const { LP.code } } else { const { MAX.code } }
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.p.iter().for_each(|p| into.f32(*p));
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let shape = inputs[0].shape;
        if shape.rank() < 2 {
            return Err(OpError::shape(format!("{shape} has no feature maps: [N, C, …]")));
        }
        let mut dims = [1; RANK_MAX];
        dims[..2].copy_from_slice(&shape.dims()[..2]);
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims[..shape.rank()])?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let lanes = Lanes::new(&inputs.info(0).shape, |dim| dim >= 2);
        let Some(p) = self.p.map(f64::from) else { return highest(&lanes, inputs, output) };
        let mut to = output.numbers::<f64>()?;
        lanes.each_wide(inputs.numbers::<f64>(0)?, &mut |place, lane| {
            let sum = lane.fold(0.0, |sum, x| sum + x.abs().powf(p));
            to.set(place, sum.powf(p.recip()));
        });
        Ok(())
    }
}

/// The highest element of each map. A NaN stays one.
fn highest(lanes: &Lanes, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
    if output.info.dtype == DataType::FLOAT {
        lanes.each(inputs.elements::<f32>(0)?, output.elements::<f32>()?, |lane| {
            lane.fold(f32::LOWEST, |most, x| if most > x || most.is_nan() { most } else { x })
        });
        return Ok(());
    }
    let mut to = output.numbers::<f64>()?;
    lanes.each_wide(inputs.numbers::<f64>(0)?, &mut |place, lane| {
        to.set(
            place,
            lane.fold(f64::LOWEST, |most, x| if most > x || most.is_nan() { most } else { x }),
        );
    });
    Ok(())
}
