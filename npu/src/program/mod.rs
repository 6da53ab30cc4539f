//! The OM format: one model's program, as a file that is used from its mapping.
//!
//! Not the vendor's format of that name. Little-endian; the file begins at an address that is a
//! multiple of 64, and so does every section and every tensor in it.
//!
//! ```text
//! ┌──────────────────────┐ 0
//! │ header (64)          │ magic, version, sizes, checksum of header and section table
//! ├──────────────────────┤ 64
//! │ section table        │ 32 bytes a section: kind, isa, offset, size, checksum
//! ├──────────────────────┤ next multiple of 64; zeros in between, also after each section
//! │ TASKS                │ 64 bytes a task, in an order in which they can run
//! │ TENSORS              │ 128 bytes a tensor: type, shape, place
//! │ OPERANDS             │ 4 bytes each: tensors that tasks read, and write after their first
//! │ PARAMS               │ parameters of ops, as each op writes them
//! │ IO                   │ 8 bytes each: inputs, then outputs, as the caller binds them
//! │ STRINGS              │ names, UTF-8
//! │ WEIGHTS              │ constants, canonical layout
//! │ EVENTS               │ 8 bytes each: what tasks begin after, of other streams
//! │ (PACKED, isa ≠ 0)    │ optional: weights packed for one kind of machine (1: VNNI, `packed`)
//! └──────────────────────┘ file size
//! ```
//!
//! Header (64 bytes):
//! ```text
//! off size field
//!   0    8 magic     "dflowOM\0"
//!   8    4 version   FORMAT_VERSION; a newer one is refused
//!  12    4 sections  entries of the section table
//!  16    8 size      of the file
//!  24    8 arena     bytes of working memory that a run needs
//!  32   24 reserved  zero
//!  56    8 checksum  of header (with this field zero) and section table
//! ```
//! Section table entry (32 bytes): kind u32, isa u32 (0: for every machine), offset u64, size u64,
//! checksum u64.
//!
//! Task (64 bytes):
//! ```text
//! off size field
//!   0    2 op        number in the op table
//!   2    2 reserved  zero
//!   4    4 stream    below 8; tasks of one stream run in file order
//!   8    4 operands  index of the first one in OPERANDS
//!  12    4 count     of operands
//!  16    4 output    index of a tensor
//!  20    4 more      further outputs: their tensors stand behind the operands
//!  24    8 params    offset in PARAMS
//!  32    4 params    size
//!  36    4 name      size
//!  40    8 name      offset in STRINGS
//!  48    8 scratch   offset in the arena
//!  56    8 scratch   size
//! ```
//! Tensor (128 bytes):
//! ```text
//! off size field
//!   0    4 dtype     by the numbers that messages use
//!   4    4 rank      at most 8
//!   8   64 dims      u64 each; zero behind the rank
//!  72    4 place     0 arena, 1 weights, 2 input, 3 output
//!  76    4 slot      of an input or output, else zero
//!  80    8 offset    in arena or WEIGHTS, else zero; a multiple of 64
//!  88    8 size      bytes, as type and shape say
//!  96    8 name      offset in STRINGS
//! 104    4 name      size
//! 108   20 reserved  zero
//! ```
//! IO entry (8 bytes): 0 input or 1 output u32, tensor u32. Event (8 bytes): task u32, after u32,
//! both indices in TASKS: `task` begins when `after`, which is earlier and of another stream, has
//! ended. Events ascend; none is there twice. Files of version 3 have none, and one stream.
//!
//! Invariants that [`Om::open`] establishes and the engine relies on:
//! * I1 every section, record, name, parameter, weight and place lies inside its container;
//! * I2 the shapes of every task are those that its op infers;
//! * I3 the outputs of a task share no byte with what the task reads, with its scratch memory nor
//!   with one another, and lie neither in the weights nor in an input; but an only output may have
//!   the place of one operand of its shape, if the op computes each element of those at its place;
//! * I4 whatever a task reads from arena or outputs was written before, as one tensor, and was not
//!   written over; every output is written in the end;
//! * I5 streams and events order every two tasks of which one writes bytes of arena or outputs that
//!   the other one reads or writes.

mod check;
mod error;
mod open;
mod order;
mod packed;
#[cfg(test)]
mod packed_tests;
mod records;
mod section;
#[cfg(test)]
mod tests;
mod write;

pub use error::OmError;
pub use open::{Om, Task, Tensor};
pub(crate) use order::Segment;
pub use packed::{Layout, with_layouts};
pub use section::Section;
pub use write::Writer;

/// First bytes of a program.
pub const MAGIC: [u8; 8] = *b"dflowOM\0";

/// Version that is written and the newest that is read.
pub const FORMAT_VERSION: u32 = 4;

/// Streams of a program at most.
pub const STREAMS_MAX: usize = 8;

/// Where a tensor lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the working memory, at this offset.
    Arena(usize),
    /// In the weights, at this offset.
    Weights(usize),
    /// It is this input, in the caller's memory.
    Input(usize),
    /// It is this output, in the caller's memory.
    Output(usize),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Arena(offset) => write!(f, "arena+{offset}"),
            Self::Weights(offset) => write!(f, "weights+{offset}"),
            Self::Input(slot) => write!(f, "input {slot}"),
            Self::Output(slot) => write!(f, "output {slot}"),
        }
    }
}
