//! The software NPU in this process: compiler and engine, no queue and no message.

use compiler::Options;
use dflow::{DType, Tensor};
use npu::DataType;
use npu::aligned::AlignedBytes;
use npu::engine::{Input, Model};
use npu::tensor::TensorInfo;

use super::onnx::Onnx;
use super::{Backend, Flow, Loaded, Presence, Step, Stop, Values, tensor};

/// The backend.
#[derive(Clone, Copy, Debug)]
pub struct SoftwareNpu;

impl Backend for SoftwareNpu {
    fn name(&self) -> &'static str {
        "software-npu"
    }

    fn presence(&self) -> Presence {
        Presence::Present
    }

    fn load(&self, models: &[Onnx]) -> Step<Box<dyn Loaded>> {
        let loaded = models.iter().map(Unit::load).collect::<Step<Vec<_>>>()?;
        Ok(Box::new(Units(loaded)))
    }

    fn flow(&self, _model: &Onnx) -> Step<Box<dyn Flow>> {
        Err(Stop::Skipped("models are called in this process: there are no messages".to_owned()))
    }
}

/// A model with its memory.
struct Unit {
    onnx: Onnx,
    model: Model<AlignedBytes>,
    arena: AlignedBytes,
}

struct Units(Vec<Unit>);

impl Unit {
    fn load(onnx: &Onnx) -> Step<Self> {
        let compiled = compiler::compile(onnx.bytes().into(), &Options::default())
            .map_err(|error| Stop::Refused(error.to_string()))?;
        let model = Model::load(compiled.om).map_err(|error| Stop::Refused(error.to_string()))?;
        // Nothing may rest on what is in it.
        let mut arena = AlignedBytes::zeroed(model.arena_bytes());
        arena.fill(0xEE);
        Ok(Self { onnx: onnx.clone(), model, arena })
    }

    fn run(&mut self, inputs: &Values) -> Step<Result<Values, u32>> {
        let mut given = Vec::new();
        for port in &self.onnx.inputs {
            let own = tensor::of(inputs, &port.name)?;
            let info = TensorInfo::from_i64(DataType(own.dtype.code()), &own.shape);
            given.push((info.map_err(Stop::failed)?, AlignedBytes::copy_of(&own.bytes)));
        }
        let bound: Vec<Input<'_>> =
            given.iter().map(|(info, bytes)| Input { info: *info, bytes }).collect();
        let infos: Vec<TensorInfo> = self.model.outputs().copied().collect();
        let mut memory: Vec<AlignedBytes> =
            infos.iter().map(|info| AlignedBytes::zeroed(info.bytes())).collect();
        memory.iter_mut().for_each(|bytes| bytes.fill(0xEE));
        let mut outputs: Vec<&mut [u8]> = memory.iter_mut().map(|bytes| &mut bytes[..]).collect();
        if let Err(error) = self.model.run(&bound, &mut outputs, &mut self.arena) {
            return Ok(Err(error.code().0));
        }
        let named = self.onnx.outputs.iter().map(|port| port.name.clone());
        let tensors = infos.iter().zip(&memory).map(|(info, bytes)| made(info, bytes));
        Ok(Ok(named.zip(tensors.collect::<Step<Vec<_>>>()?).collect()))
    }
}

fn made(info: &TensorInfo, bytes: &[u8]) -> Step<Tensor> {
    let dtype = DType::of_code(info.dtype.0);
    let dtype = dtype.ok_or_else(|| Stop::failed(format_args!("an output is {info}")))?;
    let dims = info.shape.dims().iter().map(|dim| i64::try_from(*dim).unwrap_or(i64::MAX));
    Ok(Tensor { dtype, shape: dims.collect(), bytes: bytes.to_vec() })
}

impl Loaded for Units {
    fn run(&mut self, inputs: &Values) -> Step<Result<Values, u32>> {
        let mut all = Values::new();
        for unit in &mut self.0 {
            match unit.run(inputs)? {
                Ok(outputs) => all.extend(outputs),
                Err(code) => return Ok(Err(code)),
            }
        }
        Ok(Ok(all))
    }

    fn unload(self: Box<Self>) -> Step {
        Ok(())
    }
}
