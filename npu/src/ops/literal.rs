//! Constant, ConstantOfShape, Range, EyeLike, Size and NonZero: tensors that depend on constants
//! and shapes alone. In a compiled model they are constants: kernels run when it is compiled.

use crate::DataType;
use crate::element::Element;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, since, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo, element_size};

/// The line of Constant.
pub static CONSTANT: OpEntry = OpEntry {
    name: "Constant",
    code: 110,
    versions: &[1, 9, 11, 12, 13, 19, 21, 23, 24, 25],
    attributes: &[
        always("value"),
        since("value_float", 12),
        since("value_floats", 12),
        since("value_int", 12),
        since("value_ints", 12),
    ],
    inputs: (0, 0),
    operands: (0, 0),
    refused: "`sparse_value`, texts",
    import: constant,
    decode: |from| Literal::decode(const { CONSTANT.code }, from),
    ..OpEntry::BASE
};

/// The line of NonZero.
pub static NON_ZERO: OpEntry = OpEntry {
    name: "NonZero",
    code: 111,
    versions: &[9, 13],
    operands: (0, 0),
    refused: "an input that is computed from data",
    import: non_zero,
    decode: |from| Literal::decode(const { NON_ZERO.code }, from),
    ..OpEntry::BASE
};

/// A tensor with its value.
#[derive(Clone, Debug)]
pub struct Literal {
    code: u16,
    info: TensorInfo,
    bytes: Vec<u8>,
}

/// A tensor of numbers.
fn list<T: Element>(values: &[T], dims: &[usize]) -> Result<Imported, OpError> {
    let info = TensorInfo::new(T::TYPE, Shape::new(dims)?);
    let bytes = crate::cast::bytes_of(values).to_vec();
    Ok(Imported {
        op: Box::new(Literal { code: CONSTANT.code, info, bytes }),
        operands: Vec::new(),
    })
}

fn constant(node: &Node<'_>) -> Result<Imported, OpError> {
    if node.attributes.len() != 1 {
        let found = format!("one of {} attributes", node.attributes.len());
        return Err(OpError::attribute("value", found, "one"));
    }
    if let Some((info, bytes)) = node.tensor("value")? {
        let op = Literal { code: CONSTANT.code, info: *info, bytes: bytes.to_vec() };
        return Ok(Imported { op: Box::new(op), operands: Vec::new() });
    }
    if let Some(value) = node.find_float("value_float")? {
        return list(&[value], &[]);
    }
    if let Some(value) = node.int("value_int")? {
        return list(&[value], &[]);
    }
    if let Some(values) = node.floats("value_floats")? {
        return list(values, &[values.len()]);
    }
    let values = node.ints("value_ints")?.unwrap_or_default();
    list(values, &[values.len()])
}

fn non_zero(node: &Node<'_>) -> Result<Imported, OpError> {
    let known = node.input(0)?;
    let bytes = known.value.ok_or(OpError::NotConstant { input: 0, name: "X" })?;
    let size = element_size(known.info.dtype).unwrap_or(1);
    let float = types::is_float(known.info.dtype);
    // Of a float the sign may be set.
    let set = |element: &[u8]| {
        let (last, rest) = element.split_last().unwrap_or((&0, &[]));
        rest.iter().any(|byte| *byte != 0) || (if float { last & 0x7f } else { *last }) != 0
    };
    let elements = bytes.chunks_exact(size).enumerate();
    let places: Vec<usize> = elements.filter(|(_, x)| set(x)).map(|(at, _)| at).collect();
    let (dims, strides) = (known.info.shape.dims(), known.info.shape.strides());
    let mut indices = Vec::new();
    for (dim, length) in dims.iter().enumerate() {
        let along = places.iter().map(|at| at / strides[dim] % length);
        indices.extend(along.map(|index| i64::try_from(index).unwrap_or(i64::MAX)));
    }
    let info = TensorInfo::new(DataType::INT64, Shape::new(&[dims.len(), places.len()])?);
    let bytes = crate::cast::bytes_of(&indices).to_vec();
    Ok(Imported {
        op: Box::new(Literal { code: NON_ZERO.code, info, bytes }),
        operands: Vec::new(),
    })
}

fn decode_info(from: &mut ParamReader<'_>) -> Result<TensorInfo, OpError> {
    let dtype = DataType(from.u32()?.cast_signed());
    if element_size(dtype).is_none() {
        return Err(OpError::params(format!("type {} has no elements", dtype.0)));
    }
    Ok(TensorInfo::new(dtype, from.shape()?))
}

fn encode_info(info: &TensorInfo, into: &mut ParamWriter) {
    into.u32(info.dtype.0.cast_unsigned());
    into.shape(&info.shape);
}

impl Literal {
    /// Of a line of the table.
    pub(super) fn new(code: u16, info: TensorInfo, bytes: Vec<u8>) -> Self {
        Self { code, info, bytes }
    }

    pub(super) fn decode(code: u16, from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        let info = decode_info(from)?;
        let bytes = from.bytes(info.bytes())?.to_vec();
        Ok(Box::new(Self { code, info, bytes }))
    }
}

impl Op for Literal {
    fn code(&self) -> u16 {
        self.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        encode_info(&self.info, into);
        into.bytes(&self.bytes);
    }

    fn infer(&self, _inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(self.info)
    }

    fn run(&self, _inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        output.bytes.copy_from_slice(&self.bytes);
        Ok(())
    }
}

/// The line of ConstantOfShape.
pub static CONSTANT_OF_SHAPE: OpEntry = OpEntry {
    name: "ConstantOfShape",
    code: 112,
    versions: &[9, 20, 21, 23, 24, 25],
    attributes: &[always("value")],
    operands: (0, 0),
    refused: "an input that is computed from data",
    import: |node| {
        let shape = Shape::from_i64(&node.integers(0, "input")?)?;
        let (dtype, bytes) = match node.tensor("value")? {
            None => (DataType::FLOAT, &[0; 4][..]),
            Some((info, bytes)) if info.shape.elements() == 1 => (info.dtype, bytes),
            Some((info, _)) => return Err(OpError::attribute("value", info, "one number")),
        };
        let mut value = [0; 8];
        value[..bytes.len()].copy_from_slice(bytes);
        let op = Filled { info: TensorInfo::new(dtype, shape), value };
        Ok(Imported { op: Box::new(op), operands: Vec::new() })
    },
    decode: |from| {
        let info = decode_info(from)?;
        let mut value = [0; 8];
        value.copy_from_slice(from.bytes(8)?);
        Ok(Box::new(Filled { info, value }))
    },
    ..OpEntry::BASE
};

/// A tensor of one number.
#[derive(Clone, Copy, Debug)]
pub struct Filled {
    info: TensorInfo,
    /// Its bytes, and zeros.
    value: [u8; 8],
}

impl Op for Filled {
    fn code(&self) -> u16 {
        const { CONSTANT_OF_SHAPE.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        encode_info(&self.info, into);
        into.bytes(&self.value);
    }

    fn infer(&self, _inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(self.info)
    }

    fn run(&self, _inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let size = element_size(self.info.dtype).ok_or(Fault::Type(self.info.dtype))?;
        for to in output.bytes.chunks_exact_mut(size) {
            to.copy_from_slice(&self.value[..size]);
        }
        Ok(())
    }
}

/// The line of Range.
pub static RANGE: OpEntry = OpEntry {
    name: "Range",
    code: 113,
    versions: &[11, 27],
    attributes: &[since("stash_type", 27)],
    inputs: (3, 3),
    operands: (0, 0),
    types: &[
        (DataType::FLOAT, 11),
        (DataType::DOUBLE, 11),
        (DataType::INT16, 11),
        (DataType::INT32, 11),
        (DataType::INT64, 11),
        (DataType::FLOAT16, 27),
        (DataType::BF16, 27),
    ],
    refused: "inputs that are computed from data, another `stash_type` than 1",
    import: range,
    decode: |from| {
        let info = decode_info(from)?;
        let (start, delta) = (from.i64()?, from.i64()?);
        Ok(Box::new(Range { info, start, delta }))
    },
    ..OpEntry::ROUNDS
};

/// Numbers at the same distance.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    info: TensorInfo,
    /// A whole number, or the bits of a float; the same of `delta`.
    start: i64,
    delta: i64,
}

fn range(node: &Node<'_>) -> Result<Imported, OpError> {
    let dtype = node.input(0)?.info.dtype;
    let own = RANGE.types_since(node.opset);
    if !own.contains(&dtype) {
        return Err(OpError::types(0, dtype, &own));
    }
    if node.int("stash_type")?.is_some_and(|given| given != 1) {
        return Err(OpError::attribute("stash_type", "another", "1"));
    }
    let number = |index: usize, name: &'static str| -> Result<(i64, f64), OpError> {
        let known = node.input(index)?;
        if known.info.dtype != dtype || known.info.shape.elements() != 1 {
            let info = known.info;
            return Err(OpError::shape(format!("input {index} `{name}` is {info}: one number")));
        }
        let numbers = node.numbers(index, name)?;
        numbers.first().copied().ok_or_else(|| OpError::shape("one number"))
    };
    let (start, limit, delta) = (number(0, "start")?, number(1, "limit")?, number(2, "delta")?);
    if delta.1 == 0.0 || !(limit.1 - start.1).is_finite() {
        return Err(OpError::shape(format!("from {} to {} by {}", start.1, limit.1, delta.1)));
    }
    #[expect(clippy::cast_possible_truncation, reason = "to the nearest end; checked by Shape")]
    let count = if types::is_float(dtype) {
        ((limit.1 - start.1) / delta.1).ceil().max(0.0) as i64
    } else {
        let way = i128::from(limit.0) - i128::from(start.0);
        let delta = i128::from(delta.0);
        let (way, step) = if delta < 0 { (-way, -delta) } else { (way, delta) };
        i64::try_from((way + step - 1).max(0) / step).unwrap_or(i64::MAX)
    };
    let info = TensorInfo::new(dtype, Shape::from_i64(&[count])?);
    let own = |pair: (i64, f64)| {
        if types::is_float(dtype) { pair.1.to_bits().cast_signed() } else { pair.0 }
    };
    let op = Range { info, start: own(start), delta: own(delta) };
    Ok(Imported { op: Box::new(op), operands: Vec::new() })
}

impl Op for Range {
    fn code(&self) -> u16 {
        const { RANGE.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        encode_info(&self.info, into);
        into.i64(self.start);
        into.i64(self.delta);
    }

    fn infer(&self, _inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(self.info)
    }

    #[expect(clippy::cast_precision_loss, reason = "indices, to a float's precision")]
    fn run(&self, _inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let elements = self.info.shape.elements();
        if types::is_float(self.info.dtype) {
            let [start, delta] =
                [self.start, self.delta].map(|own| f64::from_bits(own.cast_unsigned()));
            let mut to = output.numbers::<f64>()?;
            (0..elements).for_each(|index| to.set(index, start + index as f64 * delta));
            return Ok(());
        }
        let (start, delta) = (i128::from(self.start), i128::from(self.delta));
        let mut to = output.numbers::<i128>()?;
        (0..elements).for_each(|index| to.set(index, start + index as i128 * delta));
        Ok(())
    }
}

/// The line of Size.
pub static SIZE: OpEntry = OpEntry {
    name: "Size",
    code: 114,
    versions: &[1, 13, 19, 21, 23, 24, 25],
    import: |_| Ok(Imported::first(Size)),
    decode: |_| Ok(Box::new(Size)),
    ..OpEntry::BASE
};

/// The number of elements.
#[derive(Clone, Copy, Debug)]
pub struct Size;

impl Op for Size {
    fn code(&self) -> u16 {
        const { SIZE.code }
    }

    fn infer(&self, _inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(TensorInfo::new(DataType::INT64, Shape::SCALAR))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let count = inputs.info(0).shape.elements();
        output.elements::<i64>()?.fill(i64::try_from(count).unwrap_or(i64::MAX));
        Ok(())
    }

    fn reads_shape_only(&self) -> bool {
        true
    }
}

/// The line of EyeLike.
pub static EYE_LIKE: OpEntry = OpEntry {
    name: "EyeLike",
    code: 115,
    versions: &[9, 22],
    attributes: &[always("dtype"), always("k")],
    import: |node| {
        let own = node.input(0)?.info.dtype;
        let dtype = node.data_type("dtype")?.unwrap_or(own);
        Ok(Imported::first(EyeLike { dtype, k: node.int("k")?.unwrap_or(0) }))
    },
    decode: |from| {
        let dtype = DataType(from.u32()?.cast_signed());
        element_size(dtype).ok_or_else(|| OpError::params(format!("type {}", dtype.0)))?;
        Ok(Box::new(EyeLike { dtype, k: from.i64()? }))
    },
    ..OpEntry::BASE
};

/// Ones on a diagonal, zeros elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct EyeLike {
    dtype: DataType,
    /// How far above the main diagonal.
    k: i64,
}

impl Op for EyeLike {
    fn code(&self) -> u16 {
        const { EYE_LIKE.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.u32(self.dtype.0.cast_unsigned());
        into.i64(self.k);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let shape = inputs[0].shape;
        if shape.rank() != 2 {
            return Err(OpError::shape(format!("{shape} is no matrix")));
        }
        Ok(TensorInfo::new(self.dtype, shape))
    }

    fn run(&self, _inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let columns = output.info.shape.dims()[1];
        let at = |index: usize| i64::try_from(index).unwrap_or(i64::MAX);
        let elements = output.info.shape.elements();
        let mut to = output.numbers::<f64>()?;
        for index in 0..elements {
            let one = at(index % columns).wrapping_sub(at(index / columns)) == self.k;
            to.set(index, f64::from(u8::from(one)));
        }
        Ok(())
    }

    fn reads_shape_only(&self) -> bool {
        true
    }
}
