//! What surrounds a flow that tells which way up a page is: the pages, the oracle, the verdict.
//!
//! ```text
//! set (files and rendered pages, each in four rotations) ──► a flow ──► Found
//!  └──► oracle (the Python package on the same bytes) ──► Expected ──────┴──► verdict, table
//! ```

pub mod flow;
pub mod oracle;
pub mod record;
pub mod set;
pub mod table;
pub mod turn;
pub mod verdict;
