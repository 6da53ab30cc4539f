//! Under construction in this session.
fn main() {}
