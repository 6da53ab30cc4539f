//! One op in a test: a node is imported, its parameters go through their bytes, and the kernel runs
//! on memory that was not zero before.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::DataType;
use crate::aligned::AlignedBytes;
use crate::cast::{bytes_of, elements};
use crate::engine::over;
use crate::numbers::NumbersMut;
use crate::ops::{AttributeValue, Known, Node, Op, OpEntry, OpError, infer};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::team::Team;
use crate::tensor::{Element, TensorInfo, TensorList, run_into};

/// A tensor with its value.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) info: TensorInfo,
    pub(crate) bytes: AlignedBytes,
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.info == other.info && self.bytes[..] == other.bytes[..]
    }
}

impl Value {
    pub(crate) fn new<T: Element>(dims: &[usize], values: &[T]) -> Self {
        let info = TensorInfo::new(T::TYPE, Shape::new(dims).unwrap());
        assert_eq!(info.shape.elements(), values.len(), "as many values as the shape says");
        Self { info, bytes: AlignedBytes::copy_of(bytes_of(values)) }
    }

    /// The same bytes as another type.
    pub(crate) fn of_type(mut self, dtype: DataType) -> Self {
        self.info.dtype = dtype;
        self
    }

    pub(crate) fn elements<T: Element>(&self) -> &[T] {
        assert_eq!(self.info.dtype, T::TYPE);
        elements(&self.bytes).unwrap()
    }
}

pub(crate) fn float(dims: &[usize], values: &[f32]) -> Value {
    Value::new(dims, values)
}

pub(crate) fn ints(dims: &[usize], values: &[i32]) -> Value {
    Value::new(dims, values)
}

pub(crate) fn int64(dims: &[usize], values: &[i64]) -> Value {
    Value::new(dims, values)
}

/// Deterministic values in -1.0 to 1.0.
pub(crate) fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bits = u16::try_from(state >> 48).unwrap();
            f32::from(bits) / 32_768.0 - 1.0
        })
        .collect()
}

/// An op's parameters in a program.
pub(crate) fn params(op: &dyn Op) -> Vec<u8> {
    let mut writer = ParamWriter::default();
    op.encode(&mut writer);
    writer.into_bytes()
}

/// An op twice, with its operands.
type Both<'a> = ([Box<dyn Op>; 2], Vec<&'a Value>);

/// A node of one op.
#[derive(Clone)]
pub(crate) struct Case {
    entry: &'static OpEntry,
    opset: u32,
    attributes: Vec<(String, AttributeValue)>,
    inputs: Vec<Option<Value>>,
    /// Inputs whose values are not known when the node is imported.
    variables: Vec<usize>,
    constant: bool,
    outputs: usize,
}

impl Case {
    pub(crate) fn new(entry: &'static OpEntry, opset: u32) -> Self {
        let (attributes, inputs, variables) = (Vec::new(), Vec::new(), Vec::new());
        Self { entry, opset, attributes, inputs, variables, constant: true, outputs: 1 }
    }

    pub(crate) fn attribute(mut self, name: &str, value: AttributeValue) -> Self {
        self.attributes.push((name.to_owned(), value));
        self
    }

    /// Another number in one of the attributes, if the case has any with numbers.
    pub(crate) fn change(&mut self, attribute: usize, place: usize, to: i64) {
        let Some(attribute) = attribute.checked_rem(self.attributes.len()) else { return };
        match &mut self.attributes[attribute].1 {
            AttributeValue::Int(own) => *own = to,
            AttributeValue::Ints(own) => {
                if let Some(place) = place.checked_rem(own.len()) {
                    own[place] = to;
                }
            }
            _ => {}
        }
    }

    pub(crate) fn int(self, name: &str, value: i64) -> Self {
        self.attribute(name, AttributeValue::Int(value))
    }

    pub(crate) fn float(self, name: &str, value: f32) -> Self {
        self.attribute(name, AttributeValue::Float(value))
    }

    pub(crate) fn ints(self, name: &str, value: &[i64]) -> Self {
        self.attribute(name, AttributeValue::Ints(value.to_vec()))
    }

    pub(crate) fn text(self, name: &str, value: &str) -> Self {
        self.attribute(name, AttributeValue::Text(value.to_owned()))
    }

    pub(crate) fn input(mut self, value: Value) -> Self {
        self.inputs.push(Some(value));
        self
    }

    /// An input whose value is not known when the node is imported.
    pub(crate) fn variable(mut self, value: Value) -> Self {
        self.variables.push(self.inputs.len());
        self.input(value)
    }

    /// An optional input that is left out.
    pub(crate) fn absent(mut self) -> Self {
        self.inputs.push(None);
        self
    }

    /// The values of inputs are not known when the node is imported.
    pub(crate) fn data(mut self) -> Self {
        self.constant = false;
        self
    }

    pub(crate) fn outputs(mut self, outputs: usize) -> Self {
        self.outputs = outputs;
        self
    }

    /// Imports the node and sends the op through its bytes.
    pub(crate) fn import(&self) -> Result<(Box<dyn Op>, Vec<&Value>), OpError> {
        self.import_both().map(|([_, op], operands)| (op, operands))
    }

    /// The op as it was imported, and as a program has it.
    fn import_both(&self) -> Result<Both<'_>, OpError> {
        let known = |value: &'_ Value| Known { info: value.info, value: None };
        let inputs: Vec<Option<Known<'_>>> = self
            .inputs
            .iter()
            .enumerate()
            .map(|(index, input)| {
                let value = input.as_ref()?;
                let constant = self.constant && !self.variables.contains(&index);
                Some(Known { value: constant.then_some(&value.bytes[..]), ..known(value) })
            })
            .collect();
        let node = Node {
            opset: self.opset,
            attributes: &self.attributes,
            inputs: &inputs,
            outputs: self.outputs,
        };
        let imported = self.entry.import_node(&node)?;
        let bytes = params(&*imported.op);
        let line = imported.op.line();
        assert_eq!(line.name, self.entry.name);
        let op = line.decode_params(&bytes).expect("what an op writes it can read");
        assert_eq!(params(&*op), bytes, "bytes keep the parameters");
        for shorter in 0..bytes.len() {
            assert!(line.decode_params(&bytes[..shorter]).is_err(), "cut at {shorter}");
        }
        let operands = imported.operands.iter().map(|index| self.inputs[*index].as_ref().unwrap());
        Ok(([imported.op, op], operands.collect()))
    }

    /// The result, or the first one.
    pub(crate) fn run(&self) -> Value {
        self.run_all().swap_remove(0)
    }

    /// All results.
    pub(crate) fn run_all(&self) -> Vec<Value> {
        let (ops, operands) = self.import_both().unwrap();
        let infos: Vec<TensorInfo> = operands.iter().map(|value| value.info).collect();
        let list: Vec<(TensorInfo, &[u8])> =
            operands.iter().map(|value| (value.info, &value.bytes[..])).collect();
        let filled = |bytes: usize| {
            let mut bytes = AlignedBytes::zeroed(bytes);
            bytes.fill(0xEE);
            bytes
        };
        // Alone, and on a team: the same bits.
        let team = team();
        let mut teams = [None, Some(&*team)].into_iter();
        let [imported, read] = ops.map(|op| {
            let outputs = infer(&*op, &infos).unwrap();
            let mut scratch = filled(op.scratch_bytes(&infos, &outputs[0]));
            let mut results: Vec<(TensorInfo, AlignedBytes)> =
                outputs.iter().map(|info| (*info, filled(info.bytes()))).collect();
            run_into(&*op, &TensorList(&list), &mut results, &mut scratch, teams.next().flatten())
                .unwrap();
            let values = results.into_iter().map(|(info, bytes)| Value { info, bytes });
            let values = values.collect::<Vec<Value>>();
            check_over(&*op, &list, &values[0], &team);
            values
        });
        assert_eq!(imported, read, "bytes keep the parameters");
        read
    }

    /// Why the node is refused, by import or by inference.
    pub(crate) fn refused(&self) -> String {
        let result = self.import().and_then(|(op, operands)| {
            let infos: Vec<TensorInfo> = operands.iter().map(|value| value.info).collect();
            infer(&*op, &infos).map(|_| ())
        });
        result.expect_err("the node is refused").to_string()
    }
}

/// Over each operand that the result may lie over: the same bits.
fn check_over(op: &dyn Op, list: &[(TensorInfo, &[u8])], expected: &Value, team: &Team) {
    let infos: Vec<TensorInfo> = list.iter().map(|(info, _)| *info).collect();
    let may = |operand: &usize| op.may_lie_over(*operand, &infos, &expected.info);
    for operand in (0..list.len()).filter(may) {
        let mut list = list.to_vec();
        let mut bytes = AlignedBytes::copy_of(std::mem::take(&mut list[operand].1));
        let list = TensorList(&list);
        over::run(op, operand, &list, (&expected.info, &mut bytes), Some(team)).unwrap();
        assert!(bytes[..] == expected.bytes[..], "over operand {operand} it has other bits");
    }
}

/// A team, for one test at a time. Every part is worth a thread in tests.
pub(crate) fn team() -> MutexGuard<'static, Team> {
    static TEAM: LazyLock<Mutex<Team>> = LazyLock::new(|| Mutex::new(Team::new(3, || {}).unwrap()));
    TEAM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asserts that floats are equal within `tolerance`, absolute and relative.
pub(crate) fn assert_close(found: &Value, expected: &Value, tolerance: f32) {
    assert_eq!(found.info, expected.info);
    let pairs = found.elements::<f32>().iter().zip(expected.elements::<f32>());
    for (index, (found, expected)) in pairs.enumerate() {
        let limit = tolerance * expected.abs().max(1.0);
        assert!((found - expected).abs() <= limit, "[{index}]: {found}, expected {expected}");
    }
}

/// Values of a type, for cases of every type: the nearest that it has.
pub(crate) fn value_of(dtype: DataType, dims: &[usize], values: &[i32]) -> Value {
    let info = TensorInfo::new(dtype, Shape::new(dims).unwrap());
    let mut bytes = AlignedBytes::zeroed(info.bytes());
    let values: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
    NumbersMut::new(dtype, &mut bytes).unwrap().write(0, &values);
    Value { info, bytes }
}
