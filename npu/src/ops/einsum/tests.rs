//! Tests of Einsum: against the definition, index by index.
#![allow(clippy::float_cmp, reason = "sums of small whole numbers")]

use std::collections::BTreeMap;

use super::*;
use crate::isa::{self, Isa};
use crate::ops::testing::{Case, Value, assert_close, float, int64, noise, value_of};

/// The definition of an equation with a right side and without an ellipsis, on dims by letter.
fn expected(equation: &str, sizes: &BTreeMap<char, usize>, operands: &[Vec<i32>]) -> Vec<i32> {
    let (left, right) = equation.split_once("->").unwrap();
    let letters: Vec<char> = sizes.keys().copied().collect();
    let all: usize = sizes.values().product();
    let place = |term: &str, index: &BTreeMap<char, usize>| {
        term.chars().fold(0, |flat, letter| flat * sizes[&letter] + index[&letter])
    };
    let mut out = vec![0; right.chars().map(|letter| sizes[&letter]).product()];
    for flat in 0..all {
        let mut rest = flat;
        let mut index = BTreeMap::new();
        for letter in &letters {
            index.insert(*letter, rest % sizes[letter]);
            rest /= sizes[letter];
        }
        let factors = left.split(',').zip(operands).map(|(term, own)| own[place(term, &index)]);
        out[place(right, &index)] += factors.product::<i32>();
    }
    out
}

fn check(equation: &str, sizes: &[(char, usize)]) {
    let sizes: BTreeMap<char, usize> = sizes.iter().copied().collect();
    let (left, right) = equation.split_once("->").unwrap();
    let dims = |term: &str| term.chars().map(|letter| sizes[&letter]).collect::<Vec<usize>>();
    let operands: Vec<(Vec<usize>, Vec<i32>)> = left
        .split(',')
        .enumerate()
        .map(|(seed, term)| {
            let dims = dims(term);
            let values = noise(dims.iter().product(), 5 + seed as u64);
            #[expect(clippy::cast_possible_truncation, reason = "small numbers")]
            (dims, values.iter().map(|x| (x * 4.0) as i32).collect())
        })
        .collect();
    let values: Vec<Vec<i32>> = operands.iter().map(|(_, values)| values.clone()).collect();
    let expected = expected(equation, &sizes, &values);
    for (dtype, _) in ENTRY.types.iter().filter(|(dtype, _)| *dtype != DataType::DOUBLE) {
        let value = |dims: &[usize], values: &[i32]| match *dtype {
            DataType::UINT32 => value_of(DataType::INT32, dims, values).of_type(*dtype),
            DataType::UINT64 => value_of(DataType::INT64, dims, values).of_type(*dtype),
            own => value_of(own, dims, values),
        };
        let mut own = Case::new(&ENTRY, 12).text("equation", equation);
        for (dims, values) in &operands {
            own = own.variable(value(dims, values));
        }
        let expected = value(&dims(right), &expected);
        for isa in Isa::ALL {
            let found = isa::at_most(isa, || own.run());
            assert_eq!(found, expected, "{equation} of {operands:?}");
        }
    }
}

#[test]
fn letters_in_any_order() {
    let sizes = [('i', 2), ('j', 3), ('k', 4), ('b', 2), ('A', 5)];
    let of = |equation: &str| {
        let own = sizes.iter().filter(|(letter, _)| equation.contains(*letter));
        check(equation, &own.copied().collect::<Vec<_>>());
    };
    for equation in [
        "ij->ji",
        "ij->i",
        "ij->j",
        "ij->",
        "ijkb->kbji",
        "ii->i",
        "ii->",
        "iji->ji",
        "iiki->k",
        "i,i->",
        "i,j->ij",
        "i,j->ji",
        "ij,jk->ik",
        "ij,kj->ki",
        "bij,bjk->bik",
        "bij,bjk->kbi",
        "bij,bkj->b",
        "bij,jkb->ikb",
        "ij,k->j",
        "ij,ij->ij",
        "ij,ji->",
        "iij,jk->ki",
        ",i->i",
        "->",
        ",->",
        "i,j,k->kji",
        "ij,jk,kA->iA",
        "ij,jk,kA,Ab->ib",
        "ijk,ij,k->",
        "i,i,i->i",
        "ij,i,j->ij",
        "bijk,Aij,bA->kA",
    ] {
        of(equation);
    }
}

#[test]
fn every_number_of_columns() {
    for size in 1..40 {
        check("ij,jk->ik", &[('i', 7), ('j', 3), ('k', size)]);
        check("bij,bkj->bki", &[('b', 2), ('i', 3), ('j', size), ('k', 2)]);
    }
}

fn run(equation: &str, operands: &[Value]) -> Value {
    let own = Case::new(&ENTRY, 28).text("equation", equation);
    operands.iter().fold(own, |own, x| own.variable(x.clone())).run()
}

#[test]
fn an_ellipsis_and_no_right_side() {
    let x = int64(&[2, 2, 2], &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(run("...ii ->...i", std::slice::from_ref(&x)), int64(&[2, 2], &[1, 4, 5, 8]));
    assert_eq!(run("...ii", std::slice::from_ref(&x)), int64(&[2], &[5, 13]));
    assert_eq!(run("i...->...", std::slice::from_ref(&x)), int64(&[2, 2], &[6, 8, 10, 12]));
    assert_eq!(run("ba", &[int64(&[1, 2], &[1, 2])]), int64(&[2, 1], &[1, 2]));
    // Capital letters come first.
    assert_eq!(run("bA", &[int64(&[1, 2], &[1, 2])]), int64(&[2, 1], &[1, 2]));
    assert_eq!(run("i,i", &[int64(&[2], &[1, 2]), int64(&[2], &[3, 4])]), int64(&[], &[11]));
    // Dims of an ellipsis are broadcast from the last one on.
    let matrix = int64(&[2, 2], &[1, 0, 1, 1]);
    let products = int64(&[2, 2, 2], &[3, 2, 7, 4, 11, 6, 15, 8]);
    assert_eq!(run("...ij,...jk->...ik", &[x.clone(), matrix]), products);
    let twice = run("...i,...i->...i", &[x, int64(&[1, 1], &[2])]);
    assert_eq!(twice, int64(&[2, 2, 2], &[2, 4, 6, 8, 10, 12, 14, 16]));
}

#[test]
fn nothing_to_sum() {
    let none = float(&[2, 0], &[]);
    assert_eq!(run("ij->i", std::slice::from_ref(&none)), float(&[2], &[0.0; 2]));
    assert_eq!(run("ij,jk->ik", &[none.clone(), float(&[0, 3], &[])]), float(&[2, 3], &[0.0; 6]));
    assert_eq!(
        run("ij,jk,k->i", &[none, float(&[0, 3], &[]), float(&[3], &[1.0; 3])]).bytes.len(),
        8
    );
}

#[test]
fn doubles() {
    let x = Value::new(&[2], &[0.5f64, 2.0]);
    assert_eq!(run("i,i->i", &[x.clone(), x]), Value::new(&[2], &[0.25f64, 4.0]));
    let x = noise(6, 1);
    let found = run("ij->j", &[float(&[2, 3], &x)]);
    assert_close(&found, &float(&[3], &[x[0] + x[3], x[1] + x[4], x[2] + x[5]]), 1e-6);
}

#[test]
fn what_is_refused() {
    let refused = |equation: &str, dims: &[&[usize]]| {
        let own = Case::new(&ENTRY, 12).text("equation", equation);
        let zeros = |dims: &[usize]| float(dims, &vec![0.0; dims.iter().product()]);
        dims.iter().fold(own, |own, dims| own.variable(zeros(dims))).refused()
    };
    assert!(refused("ij->i", &[&[2]]).contains("a letter for each of 1 dim(s) of input 0"));
    assert!(refused("i->i", &[&[2, 3]]).contains("a letter for each of 2 dim(s)"));
    assert!(refused("i,j->i", &[&[2]]).contains("1 term(s), one for each input"));
    assert!(refused("i->j", &[&[2]]).contains("letters that inputs have, each once"));
    assert!(refused("i->ii", &[&[2]]).contains("letters that inputs have, each once"));
    assert!(refused("i1->i", &[&[2, 2]]).contains("without `1`"));
    assert!(refused("...i...->i", &[&[2, 2]]).contains("one ellipsis at most"));
    assert!(refused("ij,jk->ik", &[&[2, 3], &[2, 3]]).contains("a dim is 3 elsewhere, not 2"));
    let many = refused("abc,def,abcdef->a", &[&[128; 3], &[128; 3], &[1; 6]]);
    assert!(many.contains("too many elements"), "{many}");
}
