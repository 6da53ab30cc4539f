//! The software NPU: what a compiled model is ([`program`]), the ops it is made of ([`ops`]), and
//! the engine that runs it ([`engine`]).
//!
//! A model is compiled once, ahead of time, to a *program* in the OM format: tasks in order, each
//! with the place of every tensor it touches. [`program::Om::open`] checks all of it, so that
//! [`engine::Model::run`] is a walk over tasks that neither allocates nor decides anything.
//!
//! This crate is not the executor: it knows no process, no queue and no mbuf. Memory is the
//! caller's, all of it.
#![deny(unsafe_code)]

pub mod aligned;
mod cast;
pub mod checksum;
pub mod element;
pub mod engine;
pub mod half;
pub mod inspect;
pub mod isa;
mod numbers;
pub mod ops;
pub mod params;
pub mod program;
pub mod shape;
pub mod team;
pub mod tensor;

#[cfg(target_endian = "big")]
compile_error!("programs are little-endian and are used from their mapping");

pub use executor_core::abi::DataType;
