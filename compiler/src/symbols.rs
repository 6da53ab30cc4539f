//! Shapes in symbols: what a model makes of dims that it leaves open, before anybody gives them
//! numbers.
//!
//! ```text
//! x [n, 3, h, w] ─Conv, stride 2─► [n, 16, floor((h + 1) / 2), …] ─Resize─► ─Add─► y
//!                                              fits where `h` is a multiple of 32
//! ```
//! Rules by op follow dims ([`rules`]) and the small tensors that dims travel in; what has no
//! symbols is asked of the op table, as typing does. Where a rule is missing nothing is said of
//! what lies behind. A shape that is said is that of a run whose dims fulfil the conditions:
//! `compiler/tests` compare both, for models and for ONNX's node cases.

mod condition;
mod expr;
mod look;
mod moves;
mod rules;
#[cfg(test)]
mod tests;
mod values;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use npu::ops::of_onnx;
use npu::shape::Shape;
use npu::tensor::TensorInfo;

pub use condition::{Condition, Fits};
pub use expr::Expr;

use crate::Options;
use crate::error::CompileError;
use crate::import::{Dim, Imported};
use look::{Look, Seen};

/// Shapes of a model's tensors in the symbols of its inputs.
#[derive(Clone, Debug)]
pub struct Symbols {
    /// Name and dims of each input; no dims where the model does not declare them.
    pub inputs: Vec<(String, Option<Vec<Expr>>)>,
    /// Name and dims of each output; no dims where they could not be followed.
    pub outputs: Vec<(String, Option<Vec<Expr>>)>,
    /// For which dims they hold.
    pub fits: Fits,
    /// The first nodes behind which nothing is known, and their ops.
    pub lost: Vec<(String, String)>,
    conditions: BTreeSet<Condition>,
    tensors: BTreeMap<String, Vec<Expr>>,
}

/// The dims of an input as symbols: those with a name have it, open ones that of the input and
/// their place.
fn dims_of(name: &str, dims: &[Dim]) -> Option<Vec<Expr>> {
    let dim = |(at, dim): (usize, &Dim)| match dim {
        Dim::Known(dim) => Expr::of(*dim),
        Dim::Named(name) => Some(Expr::symbol(name)),
        Dim::Open => Some(Expr::symbol(&format!("{name}.{at}"))),
    };
    dims.iter().enumerate().map(dim).collect()
}

/// Follows the dims of a model's inputs to its outputs.
#[must_use]
pub fn symbols(imported: &Imported) -> Symbols {
    let mut seen: BTreeMap<&str, Seen> = BTreeMap::new();
    let mut inputs = Vec::new();
    for input in &imported.inputs {
        let dims = input.dims.as_ref().and_then(|dims| dims_of(&input.name, dims));
        let numbers = dims.iter().flatten().map(|dim| usize::try_from(dim.as_number()?).ok());
        let numbers: Option<Vec<usize>> = dims.as_ref().and_then(|_| numbers.collect());
        let shape = numbers.and_then(|dims| Shape::new(&dims).ok());
        let exact = shape.zip(of_onnx(input.dtype.0));
        let exact = exact.map(|(shape, dtype)| (TensorInfo::new(dtype, shape), None));
        seen.insert(&input.name, Seen { dims: dims.clone(), exact, ..Seen::default() });
        inputs.push((input.name.clone(), dims));
    }
    for (name, constant) in &imported.constants {
        if let Ok(own) = constant {
            seen.insert(name, Seen::exact(own.info, Some(own.bytes.clone())));
        }
    }
    let (mut conditions, mut fresh, mut lost) = (BTreeSet::new(), 0, Vec::new());
    for node in &imported.nodes {
        let of = |name: &String| Some(seen.get(name.as_str()).cloned().unwrap_or_default());
        let inputs = node.inputs.iter().map(|name| if name.is_empty() { None } else { of(name) });
        let mut inputs: Vec<Option<Seen>> = inputs.collect();
        while inputs.last().is_some_and(Option::is_none) {
            inputs.pop();
        }
        let known = inputs.iter().flatten().all(|own| own.dims.is_some());
        // What a rule asked before it gave up is not asked.
        let (opset, mut asked) = (imported.opset, BTreeSet::new());
        let (conditions_of, fresh) = (&mut asked, &mut fresh);
        let mut look = Look { node, opset, inputs, conditions: conditions_of, fresh };
        let made = look.exact().or_else(|| rules::apply(&mut look));
        if made.is_some() {
            conditions.append(&mut asked);
        }
        if made.is_none() && known {
            lost.push((node.name.clone(), node.op.clone()));
        }
        let mut made = made.unwrap_or_default().into_iter();
        for name in &node.outputs {
            seen.insert(name, made.next().unwrap_or_default());
        }
    }
    let dims = |name: &str| seen.get(name).and_then(|own| own.dims.clone());
    let outputs = imported.outputs.iter().map(|own| (own.name.clone(), dims(&own.name)));
    let all: Vec<Condition> = conditions.iter().cloned().collect();
    let tensors = seen.iter().filter_map(|(name, own)| {
        let known = |dims: &Vec<Expr>| !name.is_empty() && !dims.iter().any(Expr::has_unknown);
        Some(((*name).to_owned(), own.dims.clone().filter(known)?))
    });
    let (outputs, tensors) = (outputs.collect(), tensors.collect());
    Symbols { inputs, outputs, fits: condition::fits(&all), lost, conditions, tensors }
}

impl Symbols {
    /// The numbers of symbols when an input has a shape; `None` if it has another rank.
    fn bind(&self, shapes: &[(&str, &[usize])]) -> Option<BTreeMap<String, i64>> {
        let mut bound = BTreeMap::new();
        for (name, dims) in &self.inputs {
            let Some((_, given)) = shapes.iter().find(|(own, _)| own == name) else { continue };
            let Some(dims) = dims else { continue };
            if dims.len() != given.len() {
                return None;
            }
            for (dim, given) in dims.iter().zip(*given) {
                let symbols = dim.symbols();
                let [symbol] = symbols[..] else { continue };
                bound.insert(symbol.to_owned(), i64::try_from(*given).ok()?);
            }
        }
        Some(bound)
    }

    /// Shapes of tensors by name for given shapes of inputs, as far as they are known; `None` where
    /// the conditions do not hold, or can't be looked at.
    #[must_use]
    pub fn shapes(&self, inputs: &[(&str, &[usize])]) -> Option<BTreeMap<&str, Vec<i64>>> {
        let bound = self.bind(inputs)?;
        let of = |name: &str| bound.get(name).copied();
        let holds = |own: &Condition| own.holds(&of) == Some(true);
        if !self.conditions.iter().all(holds) || bound.values().any(|dim| *dim < 1) {
            return None;
        }
        let shapes = self.tensors.iter().filter_map(|(name, dims)| {
            let dims: Option<Vec<i64>> = dims.iter().map(|dim| dim.value(&of)).collect();
            Some((name.as_str(), dims?))
        });
        Some(shapes.collect())
    }

    /// A refusal with what symbols say of it: which dims fit, or what the model makes of them.
    pub(crate) fn explain(&self, error: CompileError, options: &Options) -> CompileError {
        let fits = self.fits.to_string();
        let given = |name: &str| options.input_shapes.iter().any(|(own, _)| own == name);
        let declared = |name: &str| self.inputs.iter().any(|own| own.0 == name && own.1.is_some());
        match error {
            CompileError::Input { name, what } if !given(&name) && declared(&name) => {
                CompileError::Input { name, what: format!("{what}; the model is {self}") }
            }
            CompileError::Op { .. } if self.misses(options) && !fits.is_empty() => {
                CompileError::Dims { error: Box::new(error), fits }
            }
            other => other,
        }
    }

    /// Whether dims that are given are none of those that fit.
    fn misses(&self, options: &Options) -> bool {
        let given = options.input_shapes.iter();
        let given: Vec<_> = given.map(|(name, dims)| (name.as_str(), &dims[..])).collect();
        let Some(bound) = self.bind(&given) else { return false };
        let of = |name: &str| bound.get(name).copied();
        self.conditions.iter().any(|own| own.holds(&of) == Some(false))
    }
}

impl fmt::Display for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |all: &[(String, Option<Vec<Expr>>)]| {
            let one = |(name, dims): &(String, Option<Vec<Expr>>)| match dims {
                Some(dims) => {
                    let dims: Vec<String> = dims.iter().map(Expr::to_string).collect();
                    format!("`{name}` [{}]", dims.join(", "))
                }
                None => format!("`{name}` of a shape that is not known"),
            };
            all.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        write!(f, "{} -> {}", text(&self.inputs), text(&self.outputs))?;
        let fits = self.fits.to_string();
        if !fits.is_empty() {
            write!(f, "; fits where {fits}")?;
        }
        if let Some((node, op)) = self.lost.first() {
            write!(f, "; shapes are not followed through {op} {node}")?;
            if self.lost.len() > 1 {
                write!(f, " and {} more nodes", self.lost.len() - 1)?;
            }
        }
        Ok(())
    }
}
