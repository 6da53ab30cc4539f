//! Floats of 16 bits: stored as such, computed as float32.
//!
//! A value of the model that is a float of 16 bits is either a tensor of that type, or a tensor of
//! float32 that stands for it and is not rounded. Which one follows from the op that makes it
//! ([`Halves`] in the op table): what computes makes float32, what moves elements makes what it
//! reads, and what has results that jump reads rounded values. Casts lie between both forms, one of
//! a tensor in each direction; the passes behind this see a graph of float32.

use std::collections::BTreeMap;

use npu::DataType;
use npu::ops::cast::Cast;
use npu::ops::identity::Identity;
use npu::ops::{self, Halves, Imported, Known, Node, Op, OpEntry};
use npu::tensor::{TensorInfo, type_name};

use super::{Graph, Refusal, TensorIndex, TypedNode};
use crate::fold::{Budget, fold};
use crate::import::ImportedNode;

/// A value of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub(super) tensor: TensorIndex,
    /// The type of the model that the tensor, which is of float32, stands for.
    pub(super) stands: Option<DataType>,
}

/// Tensors that are others of another type.
pub(super) type Casts = BTreeMap<(TensorIndex, i32), TensorIndex>;

/// What became of a node: its op, its operands, and for each output what it is and stands for.
pub(super) struct Made {
    pub(super) op: Box<dyn Op>,
    pub(super) operands: Vec<TensorIndex>,
    pub(super) outputs: Vec<(TensorInfo, Option<DataType>)>,
    /// Whether it computes as float32 what is of 16 bits in the model, and with weights or without.
    pub(super) widened: Option<bool>,
}

/// In which form a node reads floats of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// As they are in the model.
    Own,
    /// As float32.
    Wide,
    /// As float32, after they were rounded.
    Rounded,
}

fn is_half(dtype: DataType) -> bool {
    matches!(dtype, DataType::FLOAT16 | DataType::BF16)
}

impl Graph<'_> {
    /// What a value is in the model.
    pub(super) fn info(&self, value: Value) -> TensorInfo {
        let info = self.typed.tensors[value.tensor].info;
        TensorInfo::new(value.stands.unwrap_or(info.dtype), info.shape)
    }

    fn is_constant(&self, value: Value) -> bool {
        self.typed.tensors[value.tensor].value.is_some()
    }

    /// A tensor that is of the type that the value has in the model.
    pub(super) fn own_form(&mut self, value: Value) -> Result<TensorIndex, Refusal> {
        value.stands.map_or(Ok(value.tensor), |dtype| self.cast(value.tensor, dtype))
    }

    fn form(&mut self, value: Value, form: Form) -> Result<TensorIndex, Refusal> {
        if form == Form::Own || !is_half(self.info(value).dtype) {
            return self.own_form(value);
        }
        let own = if form == Form::Rounded { self.own_form(value)? } else { value.tensor };
        if is_half(self.typed.tensors[own].info.dtype) {
            return self.cast(own, DataType::FLOAT);
        }
        Ok(own)
    }

    /// The tensor as another type: a constant is computed, whatever the budget, and of others there
    /// is one Cast for all who read it.
    fn cast(&mut self, from: TensorIndex, to: DataType) -> Result<TensorIndex, Refusal> {
        if let Some(own) = self.casts.get(&(from, to.0)) {
            return Ok(*own);
        }
        let tensor = &self.typed.tensors[from];
        let name = format!("{} in {}", tensor.name, type_name(to));
        let info = TensorInfo::new(to, tensor.info.shape);
        let op: Box<dyn Op> = Box::new(Cast::to(to));
        let mut budget = Budget::UNLIMITED;
        let values = fold(&*op, &mut self.typed.tensors, &[from], &[info], &mut budget);
        let value = values.map_err(Refusal::Kernel)?.and_then(|values| values.into_iter().next());
        let constant = value.is_some();
        let index = self.typed.add(&name, info, value);
        if !constant {
            let (inputs, outputs) = (vec![from], vec![index]);
            self.typed.nodes.push(TypedNode { name, op, inputs, outputs });
        }
        self.casts.insert((from, to.0), index);
        Ok(index)
    }

    /// Imports a node whose inputs are in a form; computes what is known of them.
    fn import_in(
        &mut self,
        (node, entry): (&ImportedNode, &'static OpEntry),
        inputs: &[Option<Value>],
        form: Form,
    ) -> Result<Imported, Refusal> {
        let mut seen = Vec::new();
        for value in inputs {
            seen.push(match *value {
                None => None,
                Some(value) => {
                    let info = self.info(value);
                    let wide = form != Form::Own && is_half(info.dtype);
                    let dtype = if wide { DataType::FLOAT } else { info.dtype };
                    let constant = self.is_constant(value);
                    let known = if constant { Some(self.form(value, form)?) } else { None };
                    Some((TensorInfo::new(dtype, info.shape), known))
                }
            });
        }
        let tensors = &self.typed.tensors;
        let known = |(info, tensor): (TensorInfo, Option<TensorIndex>)| Known {
            info,
            value: tensor.and_then(|index| tensors[index].value.as_deref()),
        };
        let known: Vec<Option<Known<'_>>> = seen.into_iter().map(|own| own.map(known)).collect();
        // Optional outputs too; one in between that nobody named is computed for nobody.
        let named = node.outputs.iter().rposition(|name| !name.is_empty());
        let outputs = named.map_or(0, |last| last + 1);
        let (opset, attributes, inputs) = (self.imported.opset, &node.attributes[..], &known[..]);
        Ok(entry.import_node(&Node { opset, attributes, inputs, outputs })?)
    }

    /// Makes the op of a node, and its operands in the form that it reads.
    pub(super) fn make(
        &mut self,
        node: &ImportedNode,
        entry: &'static OpEntry,
        inputs: &[Option<Value>],
    ) -> Result<Made, Refusal> {
        let imported = self.import_in((node, entry), inputs, Form::Own)?;
        let of = |imported: &Imported| -> Vec<Value> {
            imported.operands.iter().filter_map(|index| inputs[*index]).collect()
        };
        let values = of(&imported);
        let infos: Vec<TensorInfo> = values.iter().map(|value| self.info(*value)).collect();
        let own = entry.infer_node(&*imported.op, &infos, self.imported.opset)?;
        if !inputs.iter().flatten().any(|value| is_half(self.info(*value).dtype)) {
            let operands = values.into_iter().map(|value| value.tensor).collect();
            let outputs = own.into_iter().map(|info| (info, None)).collect();
            return Ok(Made { op: imported.op, operands, outputs, widened: None });
        }
        if let Some(made) = self.copied(&imported, &values, &own)? {
            return Ok(made);
        }
        let halves = self.halves(entry, &imported, &own);
        let stands = values.iter().any(|value| value.stands.is_some());
        let kernel = ops::infer(&*imported.op, &infos).is_ok();
        let form = match halves {
            Halves::Moved if kernel && !stands => Form::Own,
            Halves::Rounded if kernel => Form::Own,
            Halves::Rounded => Form::Rounded,
            Halves::Moved | Halves::Widened => Form::Wide,
        };
        if form == Form::Own {
            let operands = self.in_form(&values, form, imported.op.reads_shape_only())?;
            let outputs = own.into_iter().map(|info| (info, None)).collect();
            return Ok(Made { op: imported.op, operands, outputs, widened: None });
        }
        let imported = self.import_in((node, entry), inputs, form)?;
        let values = of(&imported);
        let operands = self.in_form(&values, form, imported.op.reads_shape_only())?;
        let infos: Vec<TensorInfo> =
            operands.iter().map(|index| self.typed.tensors[*index].info).collect();
        let found = ops::infer(&*imported.op, &infos)?;
        let stands = |(found, own): (TensorInfo, TensorInfo)| {
            let stands = is_half(own.dtype) && found.dtype == DataType::FLOAT;
            (found, stands.then_some(own.dtype))
        };
        let outputs = found.into_iter().zip(own).map(stands).collect();
        let weights = |value: &Value| value.stands.is_none() && self.is_constant(*value);
        let half = |value: &&Value| is_half(self.info(**value).dtype);
        let widened = (halves != Halves::Moved).then(|| values.iter().filter(half).any(weights));
        Ok(Made { op: imported.op, operands, outputs, widened })
    }

    /// A Cast that needs none: to float32, which a value is already or becomes for all who read it,
    /// and to the type that it has.
    fn copied(
        &mut self,
        imported: &Imported,
        values: &[Value],
        own: &[TensorInfo],
    ) -> Result<Option<Made>, Refusal> {
        let (true, &[value], &[to]) = (imported.op.as_any().is::<Cast>(), values, own) else {
            return Ok(None);
        };
        let same = to == self.info(value);
        if !same && to.dtype != DataType::FLOAT {
            return Ok(None);
        }
        let operand = if same { value.tensor } else { self.form(value, Form::Wide)? };
        let info = self.typed.tensors[operand].info;
        let outputs = vec![(info, value.stands.filter(|_| same))];
        let op: Box<dyn Op> = Box::new(Identity);
        Ok(Some(Made { op, operands: vec![operand], outputs, widened: None }))
    }

    /// What the table says of an op; what makes whole numbers or bools of floats decides by them.
    fn halves(&self, entry: &OpEntry, imported: &Imported, own: &[TensorInfo]) -> Halves {
        let decides = |info: &TensorInfo| {
            !is_half(info.dtype) && !matches!(info.dtype, DataType::FLOAT | DataType::DOUBLE)
        };
        match entry.halves {
            _ if imported.op.reads_shape_only() => Halves::Moved,
            Halves::Widened if own.iter().any(decides) => Halves::Rounded,
            other => other,
        }
    }

    /// Operands in a form. What reads shapes alone reads them of any.
    fn in_form(
        &mut self,
        values: &[Value],
        form: Form,
        shape_only: bool,
    ) -> Result<Vec<TensorIndex>, Refusal> {
        let each = values.iter().map(|value| match shape_only {
            true => Ok(value.tensor),
            false => self.form(*value, form),
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests;
