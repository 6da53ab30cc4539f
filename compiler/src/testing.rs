//! Models in tests: built by hand, written as a file would be.

use bytes::Bytes;
use npu::aligned::AlignedBytes;
use npu::engine::{Input, Model};
use npu::half::{Bf16, F16};
use npu::ops::AttributeValue;
use npu::program::Layout;
use npu::tensor::TensorInfo;
use prost::Message;

use crate::onnx;
use crate::{CompileError, Compiled, Options, compile, import, plan, type_graph};

/// Types of ONNX.
pub(crate) const FLOAT: i32 = 1;
pub(crate) const INT64: i32 = 7;
pub(crate) const FLOAT16: i32 = 10;
pub(crate) const BF16: i32 = 16;

/// A dim that is known, named, or open.
#[derive(Clone, Copy, Debug)]
pub(crate) enum D {
    N(i64),
    P(&'static str),
    Open,
}

/// A model that is put together.
#[derive(Clone, Debug)]
pub(crate) struct Draft(pub(crate) onnx::ModelProto);

fn value_info(name: &str, dtype: i32, dims: Option<&[D]>) -> onnx::ValueInfoProto {
    let dim = |dim: &D| match dim {
        D::N(value) => onnx::DimensionProto { dim_value: Some(*value), dim_param: None },
        D::P(name) => onnx::DimensionProto { dim_value: None, dim_param: Some((*name).to_owned()) },
        D::Open => onnx::DimensionProto::default(),
    };
    let shape = dims.map(|dims| onnx::TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor_type = Some(onnx::TensorTypeProto { elem_type: Some(dtype), shape });
    let kind = Some(onnx::TypeProto { tensor_type });
    onnx::ValueInfoProto { name: Some(name.to_owned()), kind }
}

/// An attribute as a file has it.
fn attribute((name, value): &(&str, AttributeValue)) -> onnx::AttributeProto {
    let mut own =
        onnx::AttributeProto { name: Some((*name).to_owned()), ..onnx::AttributeProto::default() };
    let kind = match value.clone() {
        AttributeValue::Float(value) => {
            own.f = Some(value);
            1
        }
        AttributeValue::Int(value) => {
            own.i = Some(value);
            2
        }
        AttributeValue::Text(value) => {
            own.s = Some(value.into());
            3
        }
        AttributeValue::Ints(value) => {
            own.ints = value;
            7
        }
        _ => 4,
    };
    own.kind = Some(kind);
    own
}

impl Draft {
    pub(crate) fn new(opset: i64) -> Self {
        let import = onnx::OperatorSetIdProto { domain: None, version: Some(opset) };
        Self(onnx::ModelProto {
            ir_version: Some(8),
            graph: Some(onnx::GraphProto::default()),
            opset_import: vec![import],
        })
    }

    pub(crate) fn graph(&mut self) -> &mut onnx::GraphProto {
        self.0.graph.get_or_insert_default()
    }

    pub(crate) fn input(mut self, name: &str, dtype: i32, dims: &[D]) -> Self {
        self.graph().input.push(value_info(name, dtype, Some(dims)));
        self
    }

    pub(crate) fn output(mut self, name: &str, dtype: i32, dims: Option<&[D]>) -> Self {
        self.graph().output.push(value_info(name, dtype, dims));
        self
    }

    pub(crate) fn floats(self, name: &str, dims: &[i64], values: &[f32]) -> Self {
        let raw = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.raw(name, FLOAT, dims, raw)
    }

    /// Floats of 16 bits.
    pub(crate) fn halves(self, name: &str, dtype: i32, dims: &[i64], values: &[f32]) -> Self {
        let raw = values.iter().flat_map(|value| half(dtype, *value).to_le_bytes()).collect();
        self.raw(name, dtype, dims, raw)
    }

    /// A constant of any type by its bytes.
    pub(crate) fn raw(mut self, name: &str, dtype: i32, dims: &[i64], raw: Vec<u8>) -> Self {
        self.graph().initializer.push(onnx::TensorProto {
            dims: dims.to_vec(),
            data_type: Some(dtype),
            name: Some(name.to_owned()),
            raw_data: Some(raw.into()),
            ..onnx::TensorProto::default()
        });
        self
    }

    pub(crate) fn int64s(mut self, name: &str, dims: &[i64], values: &[i64]) -> Self {
        self.graph().initializer.push(onnx::TensorProto {
            dims: dims.to_vec(),
            data_type: Some(INT64),
            name: Some(name.to_owned()),
            int64_data: values.to_vec(),
            ..onnx::TensorProto::default()
        });
        self
    }

    /// A node called after its op and its output.
    pub(crate) fn node(self, op: &str, inputs: &[&str], output: &str) -> Self {
        self.node_with(op, inputs, output, &[])
    }

    pub(crate) fn node_with(
        mut self,
        op: &str,
        inputs: &[&str],
        output: &str,
        attributes: &[(&str, AttributeValue)],
    ) -> Self {
        self.graph().node.push(onnx::NodeProto {
            input: inputs.iter().map(|name| (*name).to_owned()).collect(),
            output: vec![output.to_owned()],
            name: Some(format!("{op}.{output}")),
            op_type: Some(op.to_owned()),
            attribute: attributes.iter().map(attribute).collect(),
            domain: None,
        });
        self
    }

    pub(crate) fn bytes(&self) -> Bytes {
        self.0.encode_to_vec().into()
    }

    pub(crate) fn compile(&self, shapes: &[(&str, &[usize])]) -> Result<Compiled, CompileError> {
        let shapes = shapes.iter().map(|(name, dims)| ((*name).to_owned(), dims.to_vec()));
        compile(self.bytes(), &Options { input_shapes: shapes.collect(), ..Options::default() })
    }

    pub(crate) fn refused(&self, shapes: &[(&str, &[usize])]) -> String {
        self.compile(shapes).map(|_| ()).expect_err("the model is refused").to_string()
    }

    /// Names of the ops of the tasks.
    pub(crate) fn tasks(&self) -> Vec<String> {
        let compiled = self.compile(&[]).unwrap();
        compiled.report.tasks.into_iter().map(|task| task.op).collect()
    }
}

/// The bits of the float of 16 bits that is nearest.
pub(crate) fn half(dtype: i32, value: f32) -> u16 {
    if dtype == FLOAT16 { F16::from_f32(value).0 } else { Bf16::from_f32(value).0 }
}

/// Runs a compiled model on floats, which become those of its types; all outputs as floats.
pub(crate) fn run(compiled: &Compiled, inputs: &[&[f32]]) -> Vec<Vec<f32>> {
    run_as(compiled, Layout::native(), inputs)
}

/// As [`run`], with weights in a layout.
pub(crate) fn run_as(compiled: &Compiled, layout: Layout, inputs: &[&[f32]]) -> Vec<Vec<f32>> {
    let model = Model::load_as(compiled.om.clone(), layout).unwrap();
    let written = |(info, values): (&TensorInfo, &&[f32])| {
        let halves = |own| values.iter().flat_map(|x| half(own, *x).to_le_bytes()).collect();
        let bytes: Vec<u8> = match info.dtype {
            npu::DataType::FLOAT16 => halves(FLOAT16),
            npu::DataType::BF16 => halves(BF16),
            _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        };
        AlignedBytes::copy_of(&bytes)
    };
    let values: Vec<AlignedBytes> = model.inputs().zip(inputs).map(written).collect();
    let bind = |(info, bytes): (&TensorInfo, _)| Input { info: *info, bytes };
    let bound: Vec<Input<'_>> =
        model.inputs().zip(values.iter().map(|value| &value[..])).map(bind).collect();
    let infos: Vec<TensorInfo> = model.outputs().copied().collect();
    let mut outputs: Vec<AlignedBytes> =
        infos.iter().map(|info| AlignedBytes::zeroed(info.bytes())).collect();
    let mut memory: Vec<&mut [u8]> = outputs.iter_mut().map(|bytes| &mut bytes[..]).collect();
    let mut arena = AlignedBytes::zeroed(model.arena_bytes());
    arena.fill(0xEE);
    model.run(&bound, &mut memory, &mut arena).unwrap();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let floats = |(info, bytes): (&TensorInfo, &AlignedBytes)| -> Vec<f32> {
        if info.dtype == npu::DataType::INT64 {
            let (words, _) = bytes.as_chunks();
            return words.iter().map(|word| i64::from_le_bytes(*word) as f32).collect();
        }
        let halves = || bytes.as_chunks().0.iter().map(|word| u16::from_le_bytes(*word));
        match info.dtype {
            npu::DataType::FLOAT16 => return halves().map(|bits| F16(bits).to_f32()).collect(),
            npu::DataType::BF16 => return halves().map(|bits| Bf16(bits).to_f32()).collect(),
            npu::DataType::BOOL | npu::DataType::UINT8 => {
                return bytes.iter().map(|byte| f32::from(*byte)).collect();
            }
            _ => {}
        }
        let (words, _) = bytes.as_chunks();
        words.iter().map(|word| f32::from_le_bytes(*word)).collect()
    };
    infos.iter().zip(&outputs).map(floats).collect()
}

/// Deterministic values in -1.0 to 1.0.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub(crate) fn noise(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
}

/// Checks which tasks a model has, and that results are those without any pass.
pub(crate) fn check(draft: &Draft, tasks: &[&str], x: &[f32]) {
    assert_eq!(draft.tasks(), tasks);
    let compiled = draft.compile(&[]).unwrap();
    assert!(compiled.report.live_bytes <= compiled.report.arena_bytes);
    let typed = type_graph(import(draft.bytes()).unwrap(), &Options::default()).unwrap();
    let om = plan(&typed, 1).write().unwrap();
    let expected = run(&Compiled { om, ..compiled.clone() }, &[x]);
    let found = run(&compiled, &[x]);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{a}, expected {b}");
        }
    }
}
