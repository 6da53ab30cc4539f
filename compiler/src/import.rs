//! Reading a model: protobuf to names, attributes and constants. Nothing is known of ops here.
//! What the bytes begin with says whether they are an ONNX model or a frozen graph of TensorFlow
//! (`crate::tensorflow`).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use npu::DataType;
use npu::ops::{AttributeValue, of_onnx};
use npu::shape::Shape;
use npu::tensor::{TensorInfo, element_size};
use prost::Message;

use crate::error::CompileError;
use crate::{onnx, tensorflow, whole};

/// Oldest and newest file versions that are read.
const IR_VERSIONS: std::ops::RangeInclusive<i64> = 1..=20;

/// How a frozen graph begins: field 1, of a length. An ONNX model's field 1 is a number.
const NODE: u8 = 1 << 3 | 2;

/// A dim of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// It is known.
    Known(usize),
    /// It has a name, which stands for the same number wherever it is used.
    Named(String),
    /// Nothing is known of it.
    Open,
}

/// A constant of the file; its bytes are a part of the file where the file has them as bytes.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) info: TensorInfo,
    pub(crate) bytes: Bytes,
}

/// An input or output as it is declared.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) name: String,
    /// Number and name of the type in ONNX.
    pub(crate) dtype: (i32, String),
    /// `None` when not even the rank is declared.
    pub(crate) dims: Option<Vec<Dim>>,
}

/// A node of the graph.
#[derive(Clone, Debug)]
pub(crate) struct ImportedNode {
    /// Its name in back quotes, or its index and first output if it has none.
    pub(crate) name: String,
    pub(crate) op: String,
    pub(crate) domain: String,
    /// The op that the model names, where that is none of ONNX.
    pub(crate) origin: Option<String>,
    pub(crate) attributes: Vec<(String, AttributeValue)>,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
}

/// A model as its file says it.
#[derive(Clone, Debug)]
pub struct Imported {
    pub(crate) opset: u32,
    pub(crate) nodes: Vec<ImportedNode>,
    /// A constant that could not be read is an error only if it is used.
    pub(crate) constants: BTreeMap<String, Result<Constant, String>>,
    pub(crate) inputs: Vec<Declared>,
    pub(crate) outputs: Vec<Declared>,
}

impl Imported {
    /// Names of the inputs, in order.
    pub fn input_names(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|input| input.name.as_str())
    }

    /// Whether an input has a dim that the model leaves open.
    pub(crate) fn is_open(&self) -> bool {
        let known = |dim: &Dim| matches!(dim, Dim::Known(_));
        let open =
            |input: &Declared| !input.dims.as_ref().is_some_and(|dims| dims.iter().all(known));
        self.inputs.iter().any(open)
    }

    /// The same model with all dims of its inputs left open.
    #[must_use]
    pub fn with_open_dims(mut self) -> Self {
        for dim in self.inputs.iter_mut().flat_map(|input| &mut input.dims).flatten() {
            *dim = Dim::Open;
        }
        self
    }
}

/// Reads a model.
///
/// # Errors
/// The file is neither an ONNX model nor a frozen graph, or not of a kind that can be read.
pub fn import(model: Bytes) -> Result<Imported, CompileError> {
    import_with(model, &[])
}

/// Reads a model with the files that lie beside it: their names, as the model has them, and bytes.
///
/// # Errors
/// As [`import`].
pub fn import_with(model: Bytes, files: &[(String, Bytes)]) -> Result<Imported, CompileError> {
    // The first field of a model is a number, that of a graph a node.
    if model.first() == Some(&NODE) {
        let read = tensorflow::decode(model.clone());
        let words = |error| whole::cut_short(&model, &whole::GRAPH_DEF).unwrap_or(error);
        let graph = read.map_err(|error| CompileError::NotTensorFlow(words(error)))?;
        return tensorflow::import(&graph);
    }
    let model = decode(&model)?;
    let version = model.ir_version.unwrap_or(0);
    let graph = model.graph.ok_or_else(|| CompileError::NotOnnx("there is no graph".to_owned()))?;
    if !IR_VERSIONS.contains(&version) {
        let (first, last) = (IR_VERSIONS.start(), IR_VERSIONS.end());
        let what = format!("ir_version {version}; supported: {first} to {last}");
        return Err(CompileError::NotOnnx(what));
    }
    let opset = opset(&model.opset_import, version)?;
    if let Some(sparse) = graph.sparse_initializer.first() {
        let name = sparse.values.as_ref().and_then(|values| values.name.clone());
        let what = "sparse constants are not supported; store it dense".to_owned();
        return Err(CompileError::Initializer { name: name.unwrap_or_default(), what });
    }
    let mut constants = BTreeMap::new();
    for tensor in graph.initializer {
        let name = tensor.name.clone().unwrap_or_default();
        if constants.insert(name.clone(), constant(tensor, files)).is_some() {
            let what = "there are two of this name".to_owned();
            return Err(CompileError::Initializer { name, what });
        }
    }
    let nodes = graph.node.into_iter().enumerate().map(|(index, node)| self::node(index, node));
    let nodes = nodes.collect::<Result<_, _>>()?;
    // An input with a constant of its name has a default; the default is what is compiled.
    let inputs = graph.input.into_iter().map(declared);
    let inputs = inputs.filter(|input| !constants.contains_key(&input.name)).collect();
    let outputs = graph.output.into_iter().map(declared).collect();
    Ok(Imported { opset, nodes, constants, inputs, outputs })
}

fn opset(imports: &[onnx::OperatorSetIdProto], version: i64) -> Result<u32, CompileError> {
    let own = imports.iter().filter(|import| is_onnx(import.domain.as_deref().unwrap_or("")));
    let versions: Vec<i64> = own.map(|import| import.version.unwrap_or(0)).collect();
    match versions[..] {
        // Files of the first versions do not say it.
        [] if version < 3 => Ok(1),
        [] => Err(CompileError::Model("no opset of domain `ai.onnx` is imported".to_owned())),
        [opset] => u32::try_from(opset)
            .ok()
            .filter(|opset| *opset > 0)
            .ok_or_else(|| CompileError::Model(format!("opset {opset} is none"))),
        _ => Err(CompileError::Model(format!("opsets {versions:?} of one domain; expected one"))),
    }
}

/// Whether a domain is that of ONNX itself.
pub(crate) fn is_onnx(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

fn node(index: usize, node: onnx::NodeProto) -> Result<ImportedNode, CompileError> {
    let op = node.op_type.unwrap_or_default();
    let name = match node.name.filter(|name| !name.is_empty()) {
        Some(name) => format!("`{name}`"),
        None => {
            let output = node.output.first().map_or("", String::as_str);
            format!("#{index} (output `{output}`)")
        }
    };
    let mut attributes: Vec<(String, AttributeValue)> = Vec::new();
    for attribute in node.attribute {
        let own = attribute.name.clone().unwrap_or_default();
        if attributes.iter().any(|(name, _)| *name == own) {
            let what = format!("attribute `{own}` is there twice");
            return Err(CompileError::Node { node: name, op, what });
        }
        attributes.push((own, value(attribute)));
    }
    let domain = node.domain.unwrap_or_default();
    let (inputs, outputs) = (node.input, node.output);
    Ok(ImportedNode { name, op, domain, origin: None, attributes, inputs, outputs })
}

fn value(attribute: onnx::AttributeProto) -> AttributeValue {
    if attribute.ref_attr_name.as_ref().is_some_and(|name| !name.is_empty()) {
        return AttributeValue::Other("a reference to an attribute of a function");
    }
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    // Files of the first versions have no kind: it follows from the field that is there.
    let absent = || match &attribute {
        own if own.i.is_some() => 2,
        own if own.f.is_some() => 1,
        own if own.s.is_some() => 3,
        own if !own.ints.is_empty() => 7,
        own if !own.floats.is_empty() => 6,
        _ => 0,
    };
    match attribute.kind.filter(|kind| *kind != 0).unwrap_or_else(absent) {
        1 => AttributeValue::Float(attribute.f.unwrap_or(0.0)),
        2 => AttributeValue::Int(attribute.i.unwrap_or(0)),
        3 => AttributeValue::Text(attribute.s.as_ref().map(text).unwrap_or_default()),
        // Their bytes are copied, so they have to be a part of the model.
        4 => match attribute.t.map(|tensor| constant(tensor, &[])) {
            Some(Ok(own)) => AttributeValue::Tensor(own.info, own.bytes.to_vec()),
            _ => AttributeValue::Other("a tensor that can't be read"),
        },
        6 => AttributeValue::Floats(attribute.floats),
        7 => AttributeValue::Ints(attribute.ints),
        8 => AttributeValue::Texts(attribute.strings.iter().map(text).collect()),
        kind => {
            let known = onnx::ATTRIBUTE_KINDS.iter().find(|(number, _)| *number == kind);
            AttributeValue::Other(known.map_or("of an unknown kind", |(_, name)| name))
        }
    }
}

fn declared(info: onnx::ValueInfoProto) -> Declared {
    let tensor = info.kind.and_then(|kind| kind.tensor_type).unwrap_or_default();
    let dtype = tensor.elem_type.unwrap_or(0);
    let dims = tensor.shape.map(|shape| shape.dim.into_iter().map(dim).collect());
    Declared { name: info.name.unwrap_or_default(), dtype: (dtype, type_name(dtype)), dims }
}

fn dim(dim: onnx::DimensionProto) -> Dim {
    let known = dim.dim_value.and_then(|value| usize::try_from(value).ok());
    // Exporters write `?` for several dims that have nothing to do with one another.
    let named = |name: &String| !matches!(name.as_str(), "" | "?");
    match (dim.dim_param.filter(named), known) {
        (Some(name), _) => Dim::Named(name),
        (None, Some(value)) => Dim::Known(value),
        (None, None) => Dim::Open,
    }
}

fn type_name(dtype: i32) -> String {
    let known = onnx::DATA_TYPES.iter().find(|(number, _)| *number == dtype);
    known.map_or_else(|| format!("type {dtype}"), |(_, name)| (*name).to_owned())
}

/// Names of the types with kernels, for messages.
pub(crate) const TYPES: &str = "float32, float64, float16, bfloat16, bool, int8 to int64, uint8 to \
                                uint64";

fn constant(mut tensor: onnx::TensorProto, files: &[(String, Bytes)]) -> Result<Constant, String> {
    let number = tensor.data_type.unwrap_or(0);
    if tensor.data_location == Some(onnx::EXTERNAL) {
        tensor.raw_data = Some(external(&tensor, files)?);
    }
    let dtype =
        of_onnx(number).ok_or_else(|| format!("is {}; supported: {TYPES}", type_name(number)))?;
    let shape = Shape::from_i64(&tensor.dims).map_err(|error| error.to_string())?;
    let info = TensorInfo::new(dtype, shape);
    let bytes = match (tensor.raw_data, dtype) {
        (Some(raw), _) if !raw.is_empty() || info.bytes() == 0 => raw,
        (_, DataType::FLOAT) => words(&tensor.float_data, |value| value.to_le_bytes()),
        (_, DataType::DOUBLE) => words(&tensor.double_data, |value| value.to_le_bytes()),
        (_, DataType::INT64) => words(&tensor.int64_data, |value| value.to_le_bytes()),
        (_, DataType::UINT32 | DataType::UINT64) => {
            // Each number has its lowest bytes, as many as an element has.
            let size = element_size(dtype).unwrap_or(8);
            let low = |value: &u64| value.to_le_bytes().into_iter().take(size);
            tensor.uint64_data.iter().flat_map(low).collect::<Vec<u8>>().into()
        }
        _ => {
            let size = element_size(dtype).unwrap_or(4);
            let low = |value: &i32| value.to_le_bytes().into_iter().take(size);
            tensor.int32_data.iter().flat_map(low).collect::<Vec<u8>>().into()
        }
    };
    if bytes.len() != info.bytes() {
        return Err(format!("{} bytes; {info} has {}", bytes.len(), info.bytes()));
    }
    Ok(Constant { info, bytes })
}

/// Where the bytes of a tensor lie when they are in another file.
fn location(tensor: &onnx::TensorProto) -> Option<&str> {
    entry(tensor, "location").filter(|_| tensor.data_location == Some(onnx::EXTERNAL))
}

fn entry<'a>(tensor: &'a onnx::TensorProto, key: &str) -> Option<&'a str> {
    let own = tensor.external_data.iter().find(|entry| entry.key.as_deref() == Some(key));
    own.and_then(|entry| entry.value.as_deref())
}

/// The bytes of a tensor in a file beside the model; a part of that file, not copied.
fn external(tensor: &onnx::TensorProto, files: &[(String, Bytes)]) -> Result<Bytes, String> {
    let name = entry(tensor, "location").ok_or("its data lies in another file, without a name")?;
    let file = files.iter().find(|(own, _)| own == name).map(|(_, bytes)| bytes);
    let file = file.ok_or_else(|| {
        let place = format!("another file, `{name}`");
        format!("its data lies in {place}, which is not there; put it beside the model")
    })?;
    let number = |key: &str| -> Result<Option<usize>, String> {
        let own = entry(tensor, key).map(|text| {
            text.parse()
                .map_err(|_| format!("`{key}` of its data in `{name}` is {text:?}: no number"))
        });
        own.transpose()
    };
    let offset = number("offset")?.unwrap_or(0);
    let length = number("length")?.unwrap_or(file.len().saturating_sub(offset));
    let end = offset.checked_add(length).filter(|end| *end <= file.len());
    let end = end.ok_or_else(|| {
        let found = file.len();
        format!("its data are {length} bytes from {offset} on in `{name}`, which has {found}")
    })?;
    Ok(file.slice(offset..end))
}

fn decode(model: &Bytes) -> Result<onnx::ModelProto, CompileError> {
    onnx::ModelProto::decode(model.clone()).map_err(|error| {
        let cut = whole::cut_short(model, &whole::MODEL_PROTO);
        CompileError::NotOnnx(cut.unwrap_or_else(|| error.to_string()))
    })
}

/// Names of the files beside a model that its initializers lie in: each once, as the model says.
///
/// # Errors
/// The file is no model.
pub fn external_files(model: Bytes) -> Result<Vec<String>, CompileError> {
    if model.first() == Some(&NODE) {
        return Ok(Vec::new());
    }
    let model = decode(&model)?;
    let graph = model.graph.unwrap_or_default();
    let names: BTreeSet<&str> = graph.initializer.iter().filter_map(location).collect();
    Ok(names.into_iter().map(str::to_owned).collect())
}

fn words<T, const N: usize>(values: &[T], word: impl Fn(&T) -> [u8; N]) -> Bytes {
    values.iter().flat_map(word).collect::<Vec<u8>>().into()
}

#[cfg(test)]
mod tests;
