//! The device as a user sees it. Names `v7_n_…` carry the numbers of the specification's cases.

#![allow(clippy::unwrap_used, reason = "what the helpers of tests do")]

mod abort;
mod capture;
mod conditions;
mod edit;
mod external;
mod feed;
mod labels;
mod lifecycle;
mod program;
mod schedule;
mod split;
mod streams;
mod support;
