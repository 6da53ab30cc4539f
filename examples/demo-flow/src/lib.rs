//! What demos share that send files through a flow and compare with a Python package.
//!
//! ```text
//! graph file ──► flow::load, deploy ──► flow::run ──► what each event comes to
//! files ──────────────┴───► oracle::ask (the package on the same bytes) ──► its answers
//! ```

pub mod flow;
pub mod oracle;
