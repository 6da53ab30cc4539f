//! A node as the rules see it: what is known of its inputs, and what it asks of them.

use std::collections::BTreeSet;

use bytes::Bytes;
use npu::DataType;
use npu::ops::{self, Known, Node};
use npu::tensor::TensorInfo;

use super::condition::Condition;
use super::expr::Expr;
use crate::fold::{self, Budget};
use crate::import::ImportedNode;
use crate::typed::TypedTensor;

/// Most elements of a tensor whose values are followed: those that shapes are made of.
const VALUES_MAX: usize = 64;

/// Most operations that are spent on constants.
const FLOPS_MAX: u64 = 1 << 20;

/// Dims of a tensor.
pub(crate) type Dims = Vec<Expr>;

/// What is known of a tensor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Its shape, if its rank is known.
    pub(crate) dims: Option<Dims>,
    /// Its elements, if they are whole numbers of dims.
    pub(crate) values: Option<Vec<Expr>>,
    /// Whether those are of a type of floats.
    pub(crate) float: bool,
    /// Type and shape where there are no symbols, and the bytes of a constant.
    pub(crate) exact: Option<(TensorInfo, Option<Bytes>)>,
}

impl Seen {
    /// A tensor of a shape.
    pub(crate) fn of(dims: Dims) -> Self {
        Self { dims: Some(dims), ..Self::default() }
    }

    /// Numbers that are known, as they lie in a list or alone.
    pub(crate) fn numbers(dims: Dims, values: Vec<Expr>) -> Self {
        let values = (values.len() <= VALUES_MAX).then_some(values);
        Self { dims: Some(dims), values, ..Self::default() }
    }

    /// One of type and shape, perhaps a constant.
    pub(crate) fn exact(info: TensorInfo, value: Option<Bytes>) -> Self {
        let dims = info.shape.dims().iter().map(|dim| Expr::of(*dim)).collect();
        let small = value.as_ref().filter(|_| info.shape.elements() <= VALUES_MAX);
        let values = small.and_then(|bytes| whole(info.dtype, bytes));
        let float = !matches!(info.dtype, DataType::INT32 | DataType::INT64);
        Self { dims, values, float, exact: Some((info, value)) }
    }
}

/// Whole numbers, if all are.
fn whole(dtype: DataType, bytes: &[u8]) -> Option<Vec<Expr>> {
    fn list<const N: usize>(bytes: &[u8], of: fn([u8; N]) -> Option<i64>) -> Option<Vec<Expr>> {
        bytes.as_chunks().0.iter().map(|word| of(*word).map(Expr::number)).collect()
    }
    match dtype {
        DataType::INT64 => list(bytes, |word| Some(i64::from_le_bytes(word))),
        DataType::INT32 => list(bytes, |word| Some(i32::from_le_bytes(word).into())),
        DataType::FLOAT => list(bytes, |word| {
            let float = f32::from_le_bytes(word);
            #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^24")]
            let whole = float as i64;
            (float.fract() == 0.0 && float.abs() < 16_777_216.0).then_some(whole)
        }),
        _ => None,
    }
}

/// A node, and what is found out about it.
pub(crate) struct Look<'a> {
    pub(crate) node: &'a ImportedNode,
    pub(crate) opset: u32,
    pub(crate) inputs: Vec<Option<Seen>>,
    pub(crate) conditions: &'a mut BTreeSet<Condition>,
    /// Numbers that were given to what is unknown.
    pub(crate) fresh: &'a mut usize,
}

impl Look<'_> {
    fn with<T>(&self, read: impl FnOnce(&Node<'_>) -> T) -> T {
        let known = |input: &Option<Seen>| {
            let (info, value) = input.as_ref()?.exact.clone()?;
            Some((info, value))
        };
        let own: Vec<_> = self.inputs.iter().map(known).collect();
        let inputs: Vec<Option<Known<'_>>> = own
            .iter()
            .map(|own| {
                own.as_ref().map(|(info, value)| Known { info: *info, value: value.as_deref() })
            })
            .collect();
        let outputs = self.outputs();
        let attributes = &self.node.attributes;
        read(&Node { opset: self.opset, attributes, inputs: &inputs, outputs })
    }

    /// Number of outputs with a name.
    pub(crate) fn outputs(&self) -> usize {
        self.node.outputs.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1)
    }

    /// Whether an input is given.
    pub(crate) fn has(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(Option::is_some)
    }

    fn input(&self, index: usize) -> Option<&Seen> {
        self.inputs.get(index)?.as_ref()
    }

    /// Shape of an input.
    pub(crate) fn dims(&self, index: usize) -> Option<Dims> {
        self.input(index)?.dims.clone()
    }

    /// Elements of an input, and whether they are floats.
    pub(crate) fn values(&self, index: usize) -> Option<(Vec<Expr>, bool)> {
        let own = self.input(index)?;
        Some((own.values.clone()?, own.float))
    }

    /// Elements of an input that are numbers without symbols.
    pub(crate) fn integers(&self, index: usize) -> Option<Vec<i64>> {
        self.values(index)?.0.iter().map(Expr::as_number).collect()
    }

    /// Floats of a constant input.
    pub(crate) fn floats(&self, index: usize) -> Option<Vec<f64>> {
        let own = self.with(|node| node.numbers(index, "").ok())?;
        Some(own.into_iter().map(|(_, float)| float).collect())
    }

    /// An attribute that is a number.
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.with(|node| node.int(name).ok().flatten())
    }

    /// An attribute that is a list.
    pub(crate) fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.with(|node| node.ints(name).ok().flatten().map(<[i64]>::to_vec))
    }

    /// An attribute that is a list of floats.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<f64>> {
        let own = self.with(|node| node.floats(name).ok().flatten().map(<[f32]>::to_vec))?;
        Some(own.into_iter().map(f64::from).collect())
    }

    /// An attribute that is a text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.with(|node| node.text(name).ok().flatten().map(str::to_owned))
    }

    /// Numbers that are an attribute before an opset and an input from it on; `Err` where they are
    /// given and not known.
    pub(crate) fn either(&self, name: &str, since: u32, at: usize) -> Result<Option<Vec<i64>>, ()> {
        match (self.opset < since, self.has(at)) {
            (true, _) => Ok(self.ints(name)),
            (false, true) => self.integers(at).map(Some).ok_or(()),
            (false, false) => Ok(None),
        }
    }

    /// An axis of so many, counted from the end when negative.
    pub(crate) fn axis(axis: i64, rank: usize) -> Option<usize> {
        ops::axis("axis", axis, rank).ok()
    }

    /// What nothing is known of.
    pub(crate) fn unknown(&mut self) -> Expr {
        *self.fresh += 1;
        Expr::unknown(*self.fresh)
    }

    /// Asks for something; `None` where it can't be.
    pub(crate) fn ask(&mut self, condition: Condition) -> Option<()> {
        match (condition.symbols().is_empty(), condition.has_unknown()) {
            (_, true) => Some(()),
            (true, false) => (condition.holds(&|_| None) != Some(false)).then_some(()),
            (false, false) => {
                let same = matches!(&condition, Condition::Equal(a, b) if a == b);
                if !same {
                    self.conditions.insert(condition);
                }
                Some(())
            }
        }
    }

    /// Both are the same; whichever says more.
    pub(crate) fn equal(&mut self, a: &Expr, b: &Expr) -> Option<Expr> {
        self.ask(Condition::Equal(a.clone(), b.clone()))?;
        let first = b.has_unknown() || a.as_number().is_some();
        let first = first && !a.has_unknown() || (b.as_number().is_none() && !a.has_unknown());
        Some(if first { a.clone() } else { b.clone() })
    }

    /// It is at least so much.
    pub(crate) fn least(&mut self, of: &Expr, least: i64) -> Option<()> {
        self.ask(Condition::Least(of.clone(), least))
    }

    /// What both broadcast to.
    pub(crate) fn broadcast(&mut self, a: &[Expr], b: &[Expr]) -> Option<Dims> {
        let rank = a.len().max(b.len());
        let mut dims = Vec::with_capacity(rank);
        for at in 0..rank {
            let of = |dims: &[Expr]| {
                (at + dims.len()).checked_sub(rank).map_or(Expr::number(1), |own| dims[own].clone())
            };
            let (a, b) = (of(a), of(b));
            dims.push(match (a.as_number(), b.as_number()) {
                _ if a == b => a,
                (Some(1), _) => b,
                (_, Some(1)) => a,
                // The other one is this or 1.
                (Some(_), _) | (_, Some(_)) => self.equal(&a, &b)?,
                _ if a.has_unknown() || b.has_unknown() => self.unknown(),
                _ => self.equal(&a, &b)?,
            });
        }
        Some(dims)
    }

    /// What the table says where no input has symbols: the same lines that type a model.
    pub(crate) fn exact(&self) -> Option<Vec<Seen>> {
        let known = |input: &Option<Seen>| input.as_ref().is_none_or(|own| own.exact.is_some());
        if !self.inputs.iter().all(known) {
            return None;
        }
        let entry = ops::by_name(&self.node.op)?;
        let imported = self.with(|node| entry.import_node(node).ok())?;
        let mut tensors = Vec::new();
        for index in &imported.operands {
            if let Some((info, value)) = self.input(*index).and_then(|own| own.exact.clone()) {
                tensors.push(TypedTensor { name: String::new(), info, value });
            }
        }
        let infos: Vec<TensorInfo> = tensors.iter().map(|own| own.info).collect();
        let infos = ops::infer(&*imported.op, &infos).ok()?;
        let operands: Vec<usize> = (0..tensors.len()).collect();
        // Small results cost no bytes.
        let mut budget = Budget { bytes: 0, flops: FLOPS_MAX };
        let values =
            fold::fold(&*imported.op, &mut tensors, &operands, &infos, &mut budget).ok()?;
        let mut values = values.unwrap_or_default().into_iter();
        Some(infos.into_iter().map(|info| Seen::exact(info, values.next())).collect())
    }
}
