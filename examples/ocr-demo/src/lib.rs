//! What surrounds a flow that reads pages: the pages, the oracle, the verdict.
//!
//! ```text
//! set (files and rendered pages) ──► a flow (all at once, then one by one) ──► text, times
//!  └──► oracle (the Python package on the same bytes, at the same sizes) ──────► verdict, report
//! ```

pub mod draw;
pub mod measure;
pub mod oracle;
pub mod report;
pub mod set;
pub mod verdict;
