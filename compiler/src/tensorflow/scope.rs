//! A node while it is translated: what it reads, and the nodes that stand for it.

use std::collections::BTreeMap;

use npu::DataType;
use npu::ops::AttributeValue;
use npu::shape::Shape;
use npu::tensor::TensorInfo;

use super::attributes::Attributes;
use crate::import::{Constant, ImportedNode};

/// What is translated so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) nodes: Vec<ImportedNode>,
    pub(super) constants: BTreeMap<String, Constant>,
    /// Copies, and what they are copies of.
    copies: BTreeMap<String, String>,
    /// Number of dims of tensors of which it is known.
    ranks: BTreeMap<String, usize>,
}

impl Draft {
    pub(super) fn set_rank(&mut self, tensor: &str, rank: usize) {
        self.ranks.insert(tensor.to_owned(), rank);
    }

    /// A constant by its name or that of a copy.
    fn constant(&self, tensor: &str) -> Option<&Constant> {
        self.constants.get(self.copies.get(tensor).map_or(tensor, String::as_str))
    }
}

/// A list of numbers as an attribute.
pub(super) fn ints(name: &str, values: &[i64]) -> (String, AttributeValue) {
    (name.to_owned(), AttributeValue::Ints(values.to_vec()))
}

/// A number as an attribute.
pub(super) fn int(name: &str, value: i64) -> (String, AttributeValue) {
    (name.to_owned(), AttributeValue::Int(value))
}

/// A float as an attribute.
pub(super) fn float(name: &str, value: f32) -> (String, AttributeValue) {
    (name.to_owned(), AttributeValue::Float(value))
}

/// A node that is translated.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    pub(super) attributes: Attributes<'a>,
    /// Names of the tensors that it reads.
    pub(super) inputs: Vec<String>,
    pub(super) draft: &'a mut Draft,
}

impl Scope<'_> {
    pub(super) fn name(&self) -> &str {
        &self.attributes.0.name
    }

    fn add(
        &mut self,
        op: &str,
        inputs: &[&str],
        outputs: Vec<String>,
        attributes: Vec<(String, AttributeValue)>,
    ) {
        self.draft.nodes.push(ImportedNode {
            name: format!("`{}`", self.name()),
            op: op.to_owned(),
            domain: String::new(),
            origin: Some(self.attributes.0.op.clone()),
            attributes,
            inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
            outputs,
        });
    }

    /// Adds a node that makes something in between; its result.
    pub(super) fn step(
        &mut self,
        what: &str,
        op: &str,
        inputs: &[&str],
        attributes: Vec<(String, AttributeValue)>,
    ) -> String {
        let output = format!("{} {what}", self.name());
        self.add(op, inputs, vec![output.clone()], attributes);
        output
    }

    /// Adds the node that makes the result.
    pub(super) fn result(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<(String, AttributeValue)>,
    ) {
        let output = self.name().to_owned();
        self.add(op, inputs, vec![output], attributes);
    }

    /// Adds the node that makes several results.
    pub(super) fn results(
        &mut self,
        count: usize,
        op: &str,
        inputs: &[&str],
        attributes: Vec<(String, AttributeValue)>,
    ) {
        let outputs = (0..count).map(|index| super::tensor_name(self.name(), index)).collect();
        self.add(op, inputs, outputs, attributes);
    }

    /// Adds the node of one op that reads what this one does.
    pub(super) fn same(&mut self, op: &str, attributes: Vec<(String, AttributeValue)>) {
        let inputs = self.inputs.clone();
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        self.result(op, &inputs, attributes);
    }

    /// Makes this node a copy of its input.
    pub(super) fn copy(&mut self) {
        let (name, original) = (self.name().to_owned(), self.inputs[0].clone());
        self.result("Identity", &[&original], Vec::new());
        // Of a copy the original: a chain may be as long as the file.
        let first = self.draft.copies.get(&original).cloned().unwrap_or(original);
        self.draft.copies.insert(name, first);
    }

    /// Adds a constant of whole numbers.
    pub(super) fn numbers(&mut self, what: &str, values: &[i64]) -> Result<String, String> {
        let shape = Shape::new(&[values.len()]).map_err(|error| error.to_string())?;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let info = TensorInfo::new(DataType::INT64, shape);
        self.keep(what, Constant { info, bytes: bytes.into() })
    }

    /// Adds a float of the type that an attribute names.
    pub(super) fn number(&mut self, what: &str, value: f32) -> Result<String, String> {
        let own = self.attributes.data_type("T")?.unwrap_or(1);
        let (dtype, bytes) = match own {
            1 => (DataType::FLOAT, value.to_le_bytes().to_vec()),
            2 => (DataType::DOUBLE, f64::from(value).to_le_bytes().to_vec()),
            other => {
                let name = super::constant::type_of(other).1;
                return Err(format!("is of {name}; supported: float32, float64"));
            }
        };
        let info = TensorInfo::new(dtype, Shape::SCALAR);
        self.keep(what, Constant { info, bytes: bytes.into() })
    }

    fn keep(&mut self, what: &str, constant: Constant) -> Result<String, String> {
        let name = format!("{} {what}", self.name());
        match self.draft.constants.insert(name.clone(), constant) {
            None => Ok(name),
            Some(_) => Err(format!("`{name}` is there twice")),
        }
    }

    fn is_no_constant(&self, index: usize, what: &str) -> String {
        let input = &self.inputs[index];
        format!("input {index} ({what}), `{input}`, is computed; it has to be a constant")
    }

    /// Shape of an input that has to be a constant.
    pub(super) fn constant_dims(&self, index: usize, what: &str) -> Result<Vec<usize>, String> {
        let constant = self.draft.constant(&self.inputs[index]);
        let constant = constant.ok_or_else(|| self.is_no_constant(index, what))?;
        Ok(constant.info.shape.dims().to_vec())
    }

    /// Numbers of an input that has to be a constant.
    pub(super) fn constant_ints(&self, index: usize, what: &str) -> Result<Vec<i64>, String> {
        let constant = self.draft.constant(&self.inputs[index]);
        let constant = constant.ok_or_else(|| self.is_no_constant(index, what))?;
        let info = constant.info;
        match info.dtype {
            _ if info.shape.rank() > 1 => {}
            DataType::INT32 => {
                let (words, _) = constant.bytes.as_chunks();
                return Ok(words.iter().map(|w| i64::from(i32::from_le_bytes(*w))).collect());
            }
            DataType::INT64 => {
                let (words, _) = constant.bytes.as_chunks();
                return Ok(words.iter().map(|w| i64::from_le_bytes(*w)).collect());
            }
            _ => {}
        }
        let expected = "expected numbers, int32 or int64, in one dim";
        Err(format!("input {index} ({what}) is {info}; {expected}"))
    }

    /// One number of an input that has to be a constant.
    pub(super) fn constant_int(&self, index: usize, what: &str) -> Result<i64, String> {
        let all = self.constant_ints(index, what)?;
        match all[..] {
            [one] => Ok(one),
            _ => Err(format!("input {index} ({what}) is {all:?}; expected one number")),
        }
    }

    /// Number of dims of an input, if it is known.
    pub(super) fn rank(&self, index: usize) -> Option<usize> {
        let name = self.inputs.get(index)?;
        let constant = || self.draft.constant(name).map(|own| own.info.shape.rank());
        self.draft.ranks.get(name).copied().or_else(constant)
    }

    pub(super) fn set_rank(&mut self, rank: usize) {
        let name = self.name().to_owned();
        self.draft.set_rank(&name, rank);
    }
}
