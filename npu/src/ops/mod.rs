//! The op table: everything a model may consist of.
//!
//! **Adding an op is adding one file** and its line in `ops!` below. The file holds an
//! [`OpEntry`] (name, number, opsets, attributes, types) and a type that implements [`Op`]: its
//! parameters, their bytes in a program, shape inference, the portable kernel, and the tests.
//! A function of one element, or of two, says only that it is one: [`activation::Elementwise`],
//! [`unary::Function`], [`pairwise::Pair`]; a family that is one idea is one file. Examples as text
//! (`examples/`) are its tests, seeds for hostile programs, and cases of the suite for backends.
//! Nothing else knows the op: the compiler imports, infers and folds through
//! the table, a program is opened and run through it, and docs/status.md is compared with it.
//!
//! Fused forms are parameters of an op (the activation of a Conv), not ops of their own.

mod error;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod hostile;
mod node;
#[cfg(test)]
mod sweeps;
#[cfg(test)]
pub(crate) mod testing;

pub mod activation;
pub mod blocked;
mod broadcast;
mod cell;
mod fourier;
mod gemm;
mod halves;
mod lanes;
mod movement;
pub mod pairwise;
mod sample;
mod types;
pub mod unary;
mod window;

use std::any::Any;
use std::fmt;

use crate::DataType;
use crate::params::{ParamReader, ParamWriter};
use crate::tensor::{Fault, Inputs, Output, TensorInfo, element_size, type_name};

pub use activation::Activation;
pub use broadcast::Broadcast;
pub use error::OpError;
pub use halves::Halves;
use halves::with_widened;
pub use node::{AttributeValue, Known, Node, axis, of_onnx};

/// Newest opset whose definitions the table was compared with.
pub const OPSET_MAX: u32 = 28;

/// Most operands of an op that is computed piece by piece.
pub const BY_PLACE_MAX: usize = 8;

/// An op with its parameters, ready to infer, to run, or to be written into a program.
pub trait Op: Any + Send + Sync {
    /// Number of the op's line of the table.
    fn code(&self) -> u16;

    /// Writes the parameters; [`OpEntry::decode`] reads them. An op may have none.
    fn encode(&self, _into: &mut ParamWriter) {}

    /// Types of an operand that has its own, which the table says nothing of.
    fn types_of(&self, _operand: usize) -> Option<&'static [DataType]> {
        None
    }

    /// Type and shape of the output, or of the first one. The table has checked number and types of
    /// the inputs.
    ///
    /// # Errors
    /// What does not fit.
    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError>;

    /// Types and shapes of the outputs after the first one, if there are any.
    ///
    /// # Errors
    /// What does not fit.
    fn further(&self, _inputs: &[TensorInfo]) -> Result<Vec<TensorInfo>, OpError> {
        Ok(Vec::new())
    }

    /// Computes the outputs. The inputs are those that `infer` accepted and the outputs are what it
    /// and `further` answered; an only one has at least one element. Allocates nothing.
    ///
    /// # Errors
    /// Memory or type of a tensor does not fit; never for a checked program.
    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault>;

    /// Floating-point operations of one run: a multiply-add counts two.
    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }

    /// Bytes of scratch memory that a run needs.
    fn scratch_bytes(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        0
    }

    /// How its weights, the second operand, are packed again for machines that multiply fours of
    /// bytes; `None` of an op without such a form. The inputs are those that `infer` accepted.
    fn fours(&self, _inputs: &[TensorInfo]) -> Option<blocked::Fours> {
        None
    }

    /// The function of one element that this op is, when it is one that others can take in.
    fn activation(&self) -> Option<Activation> {
        None
    }

    /// True when each element of the only output is a function of the element of the only operand
    /// at the same place, so that the order of elements does not matter.
    fn is_elementwise(&self) -> bool {
        self.activation().is_some()
    }

    /// True when each element of the only output is a function of the elements of all operands at
    /// the same place, or of their only one: it can be computed piece by piece, and without scratch
    /// memory, so that the result may lie where an operand of its shape lies. At most
    /// [`BY_PLACE_MAX`] operands.
    fn is_by_place(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> bool {
        self.is_elementwise()
    }

    /// True when each element of the only output is a function of the elements at the same place of
    /// one or two operands, which meet by numpy's rule: any part of the result can be computed of
    /// parts of the operands.
    fn is_pointwise(&self) -> bool {
        self.is_elementwise()
    }

    /// True when the output has the bytes of input 0, so that no copy is needed.
    fn is_view(&self) -> bool {
        false
    }

    /// True when the output depends on the input's shape only, not on its bytes.
    fn reads_shape_only(&self) -> bool {
        false
    }
}

impl dyn Op {
    /// For looking at the parameters of one op.
    #[must_use]
    pub fn as_any(&self) -> &dyn Any {
        self
    }

    /// The op's line, of a program.
    #[must_use]
    pub fn line(&self) -> &'static Line {
        by_code(self.code()).unwrap_or(&Line::NONE)
    }

    /// Whether the result may lie where this operand lies.
    #[must_use]
    pub fn may_lie_over(&self, operand: usize, inputs: &[TensorInfo], output: &TensorInfo) -> bool {
        let own = &inputs[operand];
        own.shape == output.shape
            && element_size(own.dtype) == element_size(output.dtype)
            && inputs.len() <= BY_PLACE_MAX
            && self.is_by_place(inputs, output)
            && self.scratch_bytes(inputs, output) == 0
    }

    /// Types of an operand that has its own.
    fn own_types(&self, operand: usize) -> Option<&'static [DataType]> {
        let of_line = || self.line().mixed.iter().find(|(index, _)| *index == operand);
        self.types_of(operand).or_else(|| of_line().map(|(_, types)| *types))
    }
}

impl fmt::Debug for dyn Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.line().name)
    }
}

/// What an op made of a node: itself, and which inputs are left as operands.
#[derive(Debug)]
pub struct Imported {
    /// The op.
    pub op: Box<dyn Op>,
    /// Indices of the node's inputs that are operands; the others went into the parameters.
    pub operands: Vec<usize>,
}

impl Imported {
    /// All given inputs are operands.
    fn all(op: impl Op, node: &Node<'_>) -> Self {
        let given = node.inputs.iter().enumerate().filter(|(_, input)| input.is_some());
        Self { op: Box::new(op), operands: given.map(|(index, _)| index).collect() }
    }

    /// Only the first input is an operand.
    fn first(op: impl Op) -> Self {
        Self { op: Box::new(op), operands: vec![0] }
    }
}

/// An attribute and the opsets that have it: `since` to before `until`.
#[derive(Clone, Copy, Debug)]
pub struct AttributeSpec {
    /// Its name.
    pub name: &'static str,
    /// First opset with it.
    pub since: u32,
    /// First opset without it again.
    pub until: u32,
}

impl AttributeSpec {
    fn in_words(&self) -> String {
        match (self.since, self.until) {
            (1, u32::MAX) => self.name.to_owned(),
            (1, until) => format!("{} (before {until})", self.name),
            (since, _) => format!("{} (from {since})", self.name),
        }
    }
}

/// An attribute of all opsets.
const fn always(name: &'static str) -> AttributeSpec {
    AttributeSpec { name, since: 1, until: u32::MAX }
}

/// An attribute that was added.
const fn since(name: &'static str, since: u32) -> AttributeSpec {
    AttributeSpec { name, since, until: u32::MAX }
}

/// An attribute that was taken away.
const fn before(name: &'static str, until: u32) -> AttributeSpec {
    AttributeSpec { name, since: 1, until }
}

/// A line of the table.
pub struct OpEntry {
    /// Name in the model, domain `ai.onnx`.
    pub name: &'static str,
    /// Number in a program; never changes its meaning.
    pub code: u16,
    /// Opsets in which the definition changed; the first is where the op begins.
    pub versions: &'static [u32],
    /// Attributes.
    pub attributes: &'static [AttributeSpec],
    /// Least and most inputs of a node.
    pub inputs: (usize, usize),
    /// Most outputs of a node; those after the first one may be left out.
    pub outputs: usize,
    /// Least and most operands of a task.
    pub operands: (usize, usize),
    /// Types of the operands, which are all the same, and the opset since which.
    pub types: &'static [(DataType, u32)],
    /// Operands with types of their own: index, and which. `types` says nothing of them.
    pub mixed: &'static [(usize, &'static [DataType])],
    /// Floats of 16 bits that it has no kernel for and takes as float32, and the opset since which:
    /// wherever its definition has them and its kernels take float32.
    pub widened: &'static [(DataType, u32)],
    /// In which form it works on floats of 16 bits.
    pub halves: Halves,
    /// What is refused of the definition, for the documents; empty when nothing is.
    pub refused: &'static str,
    /// Makes the op of a node; the table has checked opset, attribute names and input count.
    pub import: fn(&Node<'_>) -> Result<Imported, OpError>,
    /// Makes the op of its parameters in a program.
    pub decode: fn(&mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError>,
}

impl fmt::Debug for OpEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)
    }
}

/// What a program needs of a line of the table. Who only runs programs has no use for the rest,
/// and the code that imports nodes is no part of it.
pub struct Line {
    /// As in [`OpEntry`].
    pub name: &'static str,
    /// As in [`OpEntry`].
    pub code: u16,
    operands: (usize, usize),
    types: &'static [(DataType, u32)],
    mixed: &'static [(usize, &'static [DataType])],
    decode: fn(&mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError>,
}

impl Line {
    /// Of no op.
    const NONE: Self = Self::of(&OpEntry::BASE);

    const fn of(entry: &OpEntry) -> Self {
        let OpEntry { name, code, operands, types, mixed, decode, .. } = *entry;
        Self { name, code, operands, types, mixed, decode }
    }

    /// Makes the op of all its parameters in a program.
    ///
    /// # Errors
    /// They are none, or there are more of them.
    pub fn decode_params(&self, bytes: &[u8]) -> Result<Box<dyn Op>, OpError> {
        let mut reader = ParamReader::new(bytes);
        let op = (self.decode)(&mut reader)?;
        reader.finish()?;
        Ok(op)
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! ops {
    ($($module:ident: $($entry:ident),+;)+) => {
        $(pub mod $module;)+
        /// The table.
        pub static TABLE: &[&OpEntry] = &[$($(&$module::$entry),+),+];
        /// Its lines for programs.
        static LINES: &[Line] = &[$($(Line::of(&$module::$entry)),+),+];
    };
}

ops! {
    add: ENTRY;
    affine_grid: ENTRY;
    arg: ARG_MAX, ARG_MIN;
    arithmetic: DIV, MOD, P_RELU, SUB;
    attention: ENTRY;
    batch_normalization: ENTRY;
    cast: BIT_CAST, CAST, CAST_LIKE;
    causal_conv: ENTRY;
    clip: ENTRY;
    compare: EQUAL, GREATER, GREATER_OR_EQUAL, IS_INF, IS_NAN, LESS, LESS_OR_EQUAL;
    col2im: ENTRY;
    concat: ENTRY;
    conv: ENTRY;
    conv_transpose: ENTRY;
    deform_conv: ENTRY;
    determinant: ENTRY;
    dropout: ENTRY;
    einsum: ENTRY;
    elements: GATHER, GATHER_ND, SCATTER, SCATTER_ND, SCATTER_OLD;
    expand: ENTRY;
    exponential: CELU, ELU, ERF, EXP, LOG, MISH, RECIPROCAL, SELU, SIGMOID, SOFTPLUS, SOFTSIGN,
        SQRT, SWISH, TANH;
    gated: ENTRY;
    gather: ENTRY;
    gelu: GELU;
    general_mat_mul: ENTRY;
    global_average_pool: ENTRY;
    global_pool: LP, MAX;
    grid_sample: ENTRY;
    hard_sigmoid: ENTRY;
    hard_swish: ENTRY;
    identity: ENTRY;
    integer_conv: INTEGER, LINEAR;
    integer_product: INTEGER, LINEAR;
    linear_attention: ENTRY;
    literal: CONSTANT, CONSTANT_OF_SHAPE, EYE_LIKE, NON_ZERO, RANGE, SIZE;
    logic: AND, BITWISE_AND, BITWISE_NOT, BITWISE_OR, BITWISE_XOR, BIT_SHIFT, NOT, OR, XOR;
    loss: CROSS_ENTROPY, LIKELIHOOD;
    mat_mul: ENTRY;
    max_unpool: ENTRY;
    mul: ENTRY;
    n_grams: ENTRY;
    normalization: GROUP, INSTANCE, LAYER, RMS;
    one_hot: ENTRY;
    order: TOP_K;
    pad: CENTER, ENTRY;
    pick: COMPRESS, REVERSE;
    piecewise: ABS, CEIL, FLOOR, LEAKY_RELU, NEG, ROUND, SHRINK, SIGN, THRESHOLDED_RELU;
    pool: AVERAGE_POOL, LP_POOL, MAX_POOL;
    pow: ENTRY;
    quantize: DEQUANTIZE, DYNAMIC, QUANTIZE;
    recurrent: GRU, LSTM, RNN;
    reduce: L1, L2, LOG_SUM, LOG_SUM_EXP, MAX, MEAN, MIN, PROD, SUM, SUM_SQUARE;
    relu: ENTRY;
    reshape: ENTRY;
    resize: RESIZE, UPSAMPLE;
    roi_align: ENTRY;
    rotary: ENTRY;
    running: PRODUCT, SUM;
    shape: ENTRY;
    signal: BLACKMAN, HAMMING, HANN, MEL;
    slice: ENTRY;
    softmax: ENTRY, HARD, LOG;
    space: DEPTH_TO_SPACE, SPACE_TO_DEPTH;
    spectrum: DFT, STFT;
    split: ENTRY;
    standard: LP, LRN, MEAN_VARIANCE;
    suppression: ENTRY;
    tensor_scatter: ENTRY;
    tile: ENTRY;
    transpose: ENTRY;
    triangle: ENTRY;
    trigonometric: ACOS, ACOSH, ASIN, ASINH, ATAN, ATANH, COS, COSH, SIN, SINH, TAN;
    variadic: MAX, MEAN, MIN, SUM;
    view: FLATTEN, SQUEEZE, UNSQUEEZE;
    where_: ENTRY;
}

/// The line of an op by its name in the model.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static OpEntry> {
    TABLE.iter().copied().find(|entry| entry.name == name)
}

/// The line of an op by its number in a program.
#[must_use]
pub fn by_code(code: u16) -> Option<&'static Line> {
    LINES.iter().chain(blocked::LINES).find(|line| line.code == code)
}

/// The table as rows of Markdown: what docs/status.md says of ops.
#[must_use]
pub fn markdown() -> String {
    let mut rows = "| op | opsets | definitions | types | attributes | refused |\n".to_owned();
    rows.push_str("|---|---|---|---|---|---|\n");
    let mut table = TABLE.to_vec();
    table.sort_by_key(|entry| entry.name);
    for entry in table {
        let first = entry.versions.first().copied().unwrap_or(1);
        let versions: Vec<String> = entry.versions.iter().map(u32::to_string).collect();
        let of = |(dtype, since): &(DataType, u32)| {
            let name = type_name(*dtype);
            if *since <= first { name } else { format!("{name} (from {since})") }
        };
        let mut types: Vec<String> = entry.types.iter().map(of).collect();
        if !entry.widened.is_empty() {
            let widened: Vec<String> = entry.widened.iter().map(of).collect();
            types.push(format!("and as float32: {}", widened.join(", ")));
        }
        let attributes = entry.attributes.iter().map(AttributeSpec::in_words);
        let list =
            |words: Vec<String>| if words.is_empty() { "–".to_owned() } else { words.join(", ") };
        let refused = if entry.refused.is_empty() { "–" } else { entry.refused };
        rows.push_str(&format!(
            "| {} | {first}–{OPSET_MAX} | {} | {} | {} | {refused} |\n",
            entry.name,
            versions.join(", "),
            list(types),
            list(attributes.collect()),
        ));
    }
    rows
}

/// `least` to `most`, for messages.
fn range((least, most): (usize, usize)) -> String {
    match most {
        _ if least == most => least.to_string(),
        usize::MAX => format!("{least} or more"),
        _ => format!("{least} to {most}"),
    }
}

impl OpEntry {
    /// What most lines have: one operand of any type, one output.
    const BASE: Self = Self {
        name: "",
        code: 0,
        versions: &[],
        attributes: &[],
        inputs: (1, 1),
        outputs: 1,
        operands: (1, 1),
        types: types::ALL,
        mixed: &[],
        widened: &[],
        halves: Halves::Widened,
        refused: "",
        import: |_| Err(OpError::params("no op")),
        decode: |_| Err(OpError::params("no op")),
    };

    /// Of an op that moves elements.
    const MOVES: Self = Self { halves: Halves::Moved, ..Self::BASE };

    /// Of an op whose results jump.
    const ROUNDS: Self = Self { halves: Halves::Rounded, ..Self::BASE };

    /// Makes the op of a node, after everything that the table knows was checked. Types that are
    /// widened pass.
    ///
    /// # Errors
    /// Opset, attribute, count, type or shape that is not supported.
    pub fn import_node(&'static self, node: &Node<'_>) -> Result<Imported, OpError> {
        let first = self.versions.first().copied().unwrap_or(1);
        if node.opset < first || node.opset > OPSET_MAX {
            let supported = format!("{first} to {OPSET_MAX}");
            return Err(OpError::Opset { found: node.opset, supported });
        }
        for (name, _) in node.attributes {
            self.check_attribute(name, node.opset)?;
        }
        let given = node.inputs.len();
        let (least, most) = self.inputs;
        let absent = node.inputs.iter().take(least).filter(|input| input.is_none()).count();
        if given - absent < least || given > most {
            let supported = range(self.inputs);
            return Err(OpError::Count { what: "inputs", found: given - absent, supported });
        }
        if node.outputs == 0 || node.outputs > self.outputs {
            let supported = range((1, self.outputs));
            return Err(OpError::Count { what: "outputs", found: node.outputs, supported });
        }
        let imported = (self.import)(node)?;
        self.check_params(&*imported.op)?;
        let types = self.types_since(node.opset);
        let widened = since_opset(self.widened, node.opset);
        for (operand, index) in imported.operands.iter().enumerate() {
            let found = node.input(*index)?.info.dtype;
            let types = imported.op.own_types(operand).unwrap_or(&types);
            let types = with_widened(types, &widened);
            if !types.contains(&found) {
                return Err(OpError::types(*index, found, &types));
            }
        }
        Ok(imported)
    }

    /// As [`infer`], of a node's op in the types that the node has, also those that are widened.
    ///
    /// # Errors
    /// As [`infer`].
    pub fn infer_node(
        &self,
        op: &dyn Op,
        inputs: &[TensorInfo],
        opset: u32,
    ) -> Result<Vec<TensorInfo>, OpError> {
        infer_also(op, inputs, &since_opset(self.widened, opset))
    }

    /// Whether a program can hold the parameters: what import accepts, decoding accepts.
    fn check_params(&self, op: &dyn Op) -> Result<(), OpError> {
        let mut writer = ParamWriter::default();
        op.encode(&mut writer);
        let bytes = writer.into_bytes();
        let mut reader = ParamReader::new(&bytes);
        (self.decode)(&mut reader)?;
        reader.finish()
    }

    fn check_attribute(&self, name: &str, opset: u32) -> Result<(), OpError> {
        let own = |spec: &&AttributeSpec| (spec.since..spec.until).contains(&opset);
        if self.attributes.iter().filter(own).any(|spec| spec.name == name) {
            return Ok(());
        }
        let names: Vec<&str> = self.attributes.iter().filter(own).map(|spec| spec.name).collect();
        let supported = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let found = match self.attributes.iter().find(|spec| spec.name == name) {
            Some(spec) if opset < spec.since => format!("exists from opset {}", spec.since),
            Some(spec) => format!("was removed in opset {}", spec.until),
            None => "no attribute of this op".to_owned(),
        };
        Err(OpError::Attribute { name: name.to_owned(), found, supported })
    }

    /// Types of the operands in an opset.
    #[must_use]
    pub fn types_since(&self, opset: u32) -> Vec<DataType> {
        since_opset(self.types, opset)
    }
}

/// The types of a list that an opset has.
fn since_opset(types: types::Types, opset: u32) -> Vec<DataType> {
    types.iter().filter(|(_, since)| *since <= opset).map(|(dtype, _)| *dtype).collect()
}

/// Types and shapes of an op's outputs, after everything that the table knows was checked.
///
/// # Errors
/// Number, types or shapes of the inputs do not fit.
pub fn infer(op: &dyn Op, inputs: &[TensorInfo]) -> Result<Vec<TensorInfo>, OpError> {
    infer_also(op, inputs, &[])
}

/// The same, where types pass that will be widened.
fn infer_also(
    op: &dyn Op,
    inputs: &[TensorInfo],
    widened: &[DataType],
) -> Result<Vec<TensorInfo>, OpError> {
    let line = op.line();
    let (least, most) = line.operands;
    if inputs.len() < least || inputs.len() > most {
        let supported = range(line.operands);
        return Err(OpError::Count { what: "operands", found: inputs.len(), supported });
    }
    let types: Vec<DataType> = line.types.iter().map(|(dtype, _)| *dtype).collect();
    let mut first: Option<DataType> = None;
    for (index, input) in inputs.iter().enumerate() {
        let same = first.map(|dtype| [dtype]);
        let allowed = match (op.own_types(index), &same) {
            (Some(own), _) => own,
            (None, Some(same)) => same,
            (None, None) => {
                first = Some(input.dtype);
                &types
            }
        };
        let allowed = if same.is_some() && op.own_types(index).is_none() {
            allowed.to_vec()
        } else {
            with_widened(allowed, widened)
        };
        if !allowed.contains(&input.dtype) {
            return Err(OpError::types(index, input.dtype, &allowed));
        }
    }
    let mut outputs = vec![op.infer(inputs)?];
    outputs.extend(op.further(inputs)?);
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_numbers_are_unique() {
        let names: Vec<&str> = TABLE.iter().map(|entry| entry.name).collect();
        let unique: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(unique.len(), names.len());
        let codes: BTreeSet<u16> = TABLE.iter().map(|entry| entry.code).collect();
        assert_eq!(codes.len(), TABLE.len());
        for entry in TABLE {
            assert!(entry.versions.is_sorted() && entry.versions.iter().all(|v| *v <= OPSET_MAX));
            assert_eq!(by_code(entry.code).map(|found| found.name), Some(entry.name));
            assert_eq!(by_name(entry.name).map(|found| found.code), Some(entry.code));
            assert!(!entry.types.is_empty());
        }
        assert!(by_name("None").is_none() && by_code(u16::MAX).is_none());
    }
}
