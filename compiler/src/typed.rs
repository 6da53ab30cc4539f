//! The typed graph: every tensor has type and shape, every node its op, and what depends on
//! constants and shapes alone is computed already.

mod halves;

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use npu::DataType;
use npu::ops::quantize::Linear;
use npu::ops::{self, Op, OpError, of_onnx};
use npu::shape::Shape;
use npu::tensor::{Fault, OUTPUTS_MAX, TensorInfo};

use crate::Options;
use crate::error::CompileError;
use crate::fold;
use crate::import::{Declared, Dim, Imported, ImportedNode, TYPES, is_onnx};
use crate::story::Story;
use halves::{Casts, Value};

/// Index of a tensor in [`Typed`].
pub(crate) type TensorIndex = usize;

/// A tensor of the graph.
#[derive(Clone, Debug)]
pub(crate) struct TypedTensor {
    pub(crate) name: String,
    pub(crate) info: TensorInfo,
    /// The bytes of a constant.
    pub(crate) value: Option<Bytes>,
}

/// A node of the graph.
#[derive(Debug)]
pub(crate) struct TypedNode {
    /// Without quotes, as it is written into the program.
    pub(crate) name: String,
    pub(crate) op: Box<dyn Op>,
    pub(crate) inputs: Vec<TensorIndex>,
    pub(crate) outputs: Vec<TensorIndex>,
}

impl TypedNode {
    /// The output, or the first one.
    pub(crate) fn output(&self) -> TensorIndex {
        self.outputs[0]
    }
}

/// A graph in which all types and shapes are known. Nodes stand in an order in which they can run.
#[derive(Debug)]
pub struct Typed {
    pub(crate) tensors: Vec<TypedTensor>,
    pub(crate) nodes: Vec<TypedNode>,
    pub(crate) inputs: Vec<TensorIndex>,
    /// Name and tensor of each output.
    pub(crate) outputs: Vec<(String, TensorIndex)>,
    warnings: Vec<String>,
    pub(crate) story: Story,
    /// Constants that were computed from quantised ones, with how and from what.
    pub(crate) dequantised: BTreeMap<TensorIndex, (Linear, Vec<TensorIndex>)>,
}

/// Finds types and shapes of all tensors, and folds constants.
///
/// # Errors
/// Dims that are not known, and nodes that are not supported: [`CompileError`].
pub fn type_graph(imported: Imported, options: &Options) -> Result<Typed, CompileError> {
    type_within(imported, options, fold::Budget::default())
}

/// The same with so much folding.
fn type_within(
    imported: Imported,
    options: &Options,
    budget: fold::Budget,
) -> Result<Typed, CompileError> {
    let shapes = bind_inputs(&imported.inputs, options)?;
    known_ops(&imported)?;
    let (typed, names, casts) = (Typed::empty(), BTreeMap::new(), BTreeMap::new());
    let mut graph = Graph { imported: &imported, typed, names, casts, budget };
    for (input, info) in imported.inputs.iter().zip(shapes) {
        let value = graph
            .define(&input.name, (info, None), None)
            .map_err(|what| CompileError::Input { name: input.name.clone(), what })?;
        graph.typed.inputs.push(value.tensor);
    }
    for node in &imported.nodes {
        graph.node(node)?;
    }
    graph.outputs()?;
    Ok(graph.typed)
}

impl Typed {
    fn empty() -> Self {
        let (tensors, nodes, inputs) = (Vec::new(), Vec::new(), Vec::new());
        let (outputs, warnings, story) = (Vec::new(), Vec::new(), Story::default());
        let dequantised = BTreeMap::new();
        Self { tensors, nodes, inputs, outputs, warnings, story, dequantised }
    }

    /// What was strange in the model and did no harm.
    #[must_use]
    pub fn into_warnings(self) -> Vec<String> {
        self.warnings
    }

    /// Adds a tensor.
    pub(crate) fn add(
        &mut self,
        name: &str,
        info: TensorInfo,
        value: Option<Bytes>,
    ) -> TensorIndex {
        self.tensors.push(TypedTensor { name: name.to_owned(), info, value });
        self.tensors.len() - 1
    }
}

/// Types and shapes of the inputs.
fn bind_inputs(inputs: &[Declared], options: &Options) -> Result<Vec<TensorInfo>, CompileError> {
    let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
    for (index, (name, _)) in options.input_shapes.iter().enumerate() {
        if !names.contains(&name.as_str()) {
            let what = format!("a shape is given, but the model's inputs are {names:?}");
            return Err(CompileError::Input { name: name.clone(), what });
        }
        if options.input_shapes[..index].iter().any(|(other, _)| other == name) {
            let what = "two shapes are given".to_owned();
            return Err(CompileError::Input { name: name.clone(), what });
        }
    }
    // Values of named dims, and the input that gave them.
    let mut bound: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for input in inputs {
        let given = given_for(input, options);
        for (declared, given) in input.dims.iter().flatten().zip(given.into_iter().flatten()) {
            let Dim::Named(dim) = declared else { continue };
            let (other, by) = *bound.entry(dim).or_insert((*given, &input.name));
            if other != *given {
                let what = format!("dim `{dim}` is {given}, but {other} in input `{by}`");
                return Err(CompileError::Input { name: input.name.clone(), what });
            }
        }
    }
    inputs
        .iter()
        .map(|input| {
            bind(input, given_for(input, options), &bound)
                .map_err(|what| CompileError::Input { name: input.name.clone(), what })
        })
        .collect()
}

fn given_for<'a>(input: &Declared, options: &'a Options) -> Option<&'a [usize]> {
    let own = options.input_shapes.iter().find(|(name, _)| *name == input.name);
    own.map(|(_, dims)| dims.as_slice())
}

fn bind(
    input: &Declared,
    given: Option<&[usize]>,
    bound: &BTreeMap<&str, (usize, &str)>,
) -> Result<TensorInfo, String> {
    let (number, name) = &input.dtype;
    let dtype = of_onnx(*number).ok_or_else(|| format!("is {name}; supported: {TYPES}"))?;
    let info = |dims: &[usize]| {
        let shape = Shape::new(dims).map_err(|error| error.to_string())?;
        Ok(TensorInfo::new(dtype, shape))
    };
    let Some(dims) = &input.dims else {
        let absent = || format!("the model declares no shape; give one: {}=…", input.name);
        return info(given.ok_or_else(absent)?);
    };
    let fits = |given: &[usize]| {
        given.len() == dims.len()
            && given.iter().zip(dims).all(|(given, dim)| match dim {
                Dim::Known(own) => own == given,
                Dim::Named(_) | Dim::Open => true,
            })
    };
    if let Some(given) = given {
        if !fits(given) {
            return Err(format!("shape {given:?} is given; the model declares {}", list(dims)));
        }
        return info(given);
    }
    let mut own = Vec::new();
    for (index, dim) in dims.iter().enumerate() {
        own.push(match dim {
            Dim::Known(own) => *own,
            Dim::Named(name) if bound.contains_key(name.as_str()) => bound[name.as_str()].0,
            Dim::Named(name) => {
                let (declared, input) = (list(dims), &input.name);
                return Err(format!(
                    "dim {index}, `{name}`, is open; give a shape: {input}={declared} with numbers"
                ));
            }
            Dim::Open => {
                let (declared, input) = (list(dims), &input.name);
                return Err(format!(
                    "dim {index} is open; give a shape: {input}={declared} with numbers"
                ));
            }
        });
    }
    info(&own)
}

/// Dims as they are declared.
fn list(dims: &[Dim]) -> String {
    let dims = dims.iter().map(|dim| match dim {
        Dim::Known(dim) => dim.to_string(),
        Dim::Named(name) => name.clone(),
        Dim::Open => "?".to_owned(),
    });
    format!("[{}]", dims.collect::<Vec<_>>().join(", "))
}

/// Refuses a model with ops that are not in the table, all at once.
fn known_ops(imported: &Imported) -> Result<(), CompileError> {
    let full = |node: &ImportedNode| {
        if is_onnx(&node.domain) { node.op.clone() } else { format!("{}.{}", node.domain, node.op) }
    };
    let unknown = |node: &&ImportedNode| !is_onnx(&node.domain) || ops::by_name(&node.op).is_none();
    let mut nodes = imported.nodes.iter().filter(unknown);
    let Some(first) = nodes.next() else { return Ok(()) };
    let op = full(first);
    let mut others: Vec<String> = nodes.map(full).filter(|other| *other != op).collect();
    others.sort();
    others.dedup();
    Err(CompileError::UnknownOp { node: first.name.clone(), op, opset: imported.opset, others })
}

/// Why a node is refused.
#[derive(Debug)]
enum Refusal {
    /// The op refuses it.
    Op(OpError),
    /// What is computed in advance could not be.
    Kernel(Fault),
}

impl From<OpError> for Refusal {
    fn from(error: OpError) -> Self {
        Self::Op(error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Op(error) => error.fmt(f),
            Self::Kernel(fault) => fault.fmt(f),
        }
    }
}

/// The graph while it is typed, node by node.
struct Graph<'a> {
    imported: &'a Imported,
    typed: Typed,
    names: BTreeMap<String, Value>,
    casts: Casts,
    /// What may still be folded.
    budget: fold::Budget,
}

impl Graph<'_> {
    fn define(
        &mut self,
        name: &str,
        (info, stands): (TensorInfo, Option<DataType>),
        value: Option<Bytes>,
    ) -> Result<Value, String> {
        if self.names.contains_key(name) || self.imported.constants.contains_key(name) {
            return Err(format!("`{name}` is defined twice"));
        }
        let value = Value { tensor: self.typed.add(name, info, value), stands };
        self.names.insert(name.to_owned(), value);
        Ok(value)
    }

    /// The value of a name; constants of the file become tensors when they are first used.
    fn find(&mut self, name: &str) -> Result<Option<Value>, CompileError> {
        if let Some(value) = self.names.get(name) {
            return Ok(Some(*value));
        }
        let Some(constant) = self.imported.constants.get(name) else { return Ok(None) };
        let constant = constant.as_ref().map_err(|what| CompileError::Initializer {
            name: name.to_owned(),
            what: what.clone(),
        })?;
        let tensor = self.typed.add(name, constant.info, Some(constant.bytes.clone()));
        let value = Value { tensor, stands: None };
        self.names.insert(name.to_owned(), value);
        Ok(Some(value))
    }

    fn node(&mut self, node: &ImportedNode) -> Result<(), CompileError> {
        let refuse = |what: String| CompileError::Node {
            node: node.name.clone(),
            op: node.origin.as_ref().unwrap_or(&node.op).clone(),
            what,
        };
        let mut inputs = Vec::new();
        for (index, name) in node.inputs.iter().enumerate() {
            if name.is_empty() {
                inputs.push(None);
                continue;
            }
            let found = self.find(name)?;
            inputs.push(Some(found.ok_or_else(|| {
                let later = self.imported.nodes.iter().any(|other| other.outputs.contains(name));
                let why = if later { "is made by a later node" } else { "is made by no node" };
                refuse(format!("input {index}, `{name}`, {why}"))
            })?));
        }
        // Optional inputs at the end may be written out as absent.
        while inputs.last().is_some_and(Option::is_none) {
            inputs.pop();
        }
        let entry = ops::by_name(&node.op).ok_or_else(|| refuse("not in the table".to_owned()))?;
        let opset = self.imported.opset;
        let because = |refusal: Refusal| match (refusal, &node.origin) {
            (Refusal::Op(error), Some(_)) => refuse(format!("as ONNX's {}: {error}", entry.name)),
            (Refusal::Op(error), None) => {
                CompileError::Op { node: node.name.clone(), op: entry.name, opset, error }
            }
            (Refusal::Kernel(fault), _) => refuse(fault.to_string()),
        };
        let made = self.make(node, entry, &inputs).map_err(because)?;
        let (op, operands) = (made.op, made.operands);
        let infos: Vec<TensorInfo> = made.outputs.iter().map(|(info, _)| *info).collect();
        if infos.len() > OUTPUTS_MAX {
            let found = infos.len();
            return Err(refuse(format!("{found} outputs; at most {OUTPUTS_MAX} are supported")));
        }
        let (tensors, budget) = (&mut self.typed.tensors, &mut self.budget);
        let values = fold::fold(&*op, tensors, &operands, &infos, budget)
            .map_err(|fault| refuse(fault.to_string()))?;
        let folded = values.is_some();
        let mut values = values.unwrap_or_default().into_iter();
        let mut outputs = Vec::new();
        for (index, own) in made.outputs.into_iter().enumerate() {
            let name = node.outputs.get(index).map_or("", String::as_str);
            let value = values.next();
            outputs.push(match name {
                "" => Value { tensor: self.typed.add("", own.0, value), stands: own.1 },
                _ => self.define(name, own, value).map_err(refuse)?,
            });
        }
        let tensors: Vec<TensorIndex> = outputs.iter().map(|value| value.tensor).collect();
        self.tell(node, &*op, &operands, (tensors[0], folded));
        self.tell_widened(tensors[0], made.widened);
        if let Some(linear) = op.as_any().downcast_ref::<Linear>().filter(|_| folded) {
            self.typed.dequantised.insert(tensors[0], (*linear, operands));
        } else if !folded {
            let name = node.name.trim_matches('`').to_owned();
            self.typed.nodes.push(TypedNode { name, op, inputs: operands, outputs: tensors });
        }
        // Outputs of the model are rounded where they are made: nothing is kept until the end.
        for (name, value) in node.outputs.iter().zip(outputs) {
            if self.imported.outputs.iter().any(|output| output.name == *name) {
                self.own_form(value).map_err(because)?;
            }
        }
        Ok(())
    }

    /// Tells of a node that computes halves as float32.
    fn tell_widened(&mut self, made: TensorIndex, widened: Option<bool>) {
        let what = match widened {
            Some(true) => "computed as float32, its constants widened in advance",
            Some(false) => "computed as float32",
            None => return,
        };
        self.typed.story.tell(made, what);
    }

    /// Tells of a node, and whether its results are known or could be.
    fn tell(
        &mut self,
        node: &ImportedNode,
        op: &dyn Op,
        operands: &[TensorIndex],
        (made, folded): (TensorIndex, bool),
    ) {
        let name = match &node.origin {
            Some(own) if *own != node.op => format!("{own} as {}", node.op),
            _ => node.op.clone(),
        };
        self.typed.story.begin(made, &node.name, name);
        let constant = |index: &TensorIndex| self.typed.tensors[*index].value.is_some();
        let constant = operands.iter().all(constant);
        let what = match (folded, constant || op.reads_shape_only()) {
            (true, _) if constant => "computed in advance: it depends on constants alone",
            (true, _) => "computed in advance: it depends on a shape alone",
            (false, true) => "could be computed in advance, but the budget for that is used up",
            (false, false) => return,
        };
        self.typed.story.tell(made, what);
    }

    fn outputs(&mut self) -> Result<(), CompileError> {
        let imported = self.imported;
        if imported.outputs.is_empty() {
            return Err(CompileError::Model("the graph has no output".to_owned()));
        }
        for (index, declared) in imported.outputs.iter().enumerate() {
            let name = &declared.name;
            if imported.outputs[..index].iter().any(|other| other.name == *name) {
                return Err(CompileError::Model(format!("output `{name}` is there twice")));
            }
            let found = self.find(name)?;
            let found = found.ok_or_else(|| {
                CompileError::Model(format!("output `{name}` is made by no node"))
            })?;
            let info = self.info(found);
            let (number, dtype) = &declared.dtype;
            if *number != 0 && of_onnx(*number) != Some(info.dtype) {
                let what = format!("output `{name}` is declared as {dtype}, but is {info}");
                return Err(CompileError::Model(what));
            }
            if let Some(dims) = &declared.dims {
                let agrees = dims.len() == info.shape.rank()
                    && dims.iter().zip(info.shape.dims()).all(|(dim, own)| match dim {
                        Dim::Known(dim) => dim == own,
                        Dim::Named(_) | Dim::Open => true,
                    });
                if !agrees {
                    let (declared, shape) = (list(dims), info.shape);
                    let what = format!("output `{name}` is declared as {declared}, but is {shape}");
                    self.typed.warnings.push(what);
                }
            }
            let found = self
                .own_form(found)
                .map_err(|refusal| CompileError::Model(format!("output `{name}`: {refusal}")))?;
            self.typed.outputs.push((name.clone(), found));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
