//! Tests of reading: what is kept, what is not copied, what is refused.

use super::*;
use crate::testing::{D, Draft, FLOAT};

fn draft() -> Draft {
    Draft::new(13)
        .input("x", FLOAT, &[D::N(2)])
        .floats("w", &[2], &[1.0, 2.0])
        .node("Add", &["x", "w"], "y")
        .output("y", FLOAT, None)
}

fn refused(draft: &Draft) -> String {
    import(draft.bytes()).map(|_| ()).expect_err("the file is refused").to_string()
}

#[test]
fn weights_are_a_part_of_the_file() {
    let file = draft().bytes();
    let imported = import(file.clone()).unwrap();
    let weights = &imported.constants["w"].as_ref().unwrap().bytes;
    let place = weights.as_ptr().addr() - file.as_ptr().addr();
    assert_eq!(file.slice(place..place + 8), *weights, "the same memory");
}

#[test]
fn what_is_no_model_is_refused() {
    for bytes in [&b"hello"[..], &[], &[0xFF; 100], &[0x3A, 0x7F]] {
        let error = import(Bytes::copy_from_slice(bytes)).unwrap_err();
        assert!(matches!(error, CompileError::NotOnnx(_)), "{error}");
    }
    let mut none = draft();
    none.0.graph = None;
    assert_eq!(refused(&none), "not an ONNX model: there is no graph");
    let mut old = draft();
    old.0.ir_version = Some(0);
    assert_eq!(refused(&old), "not an ONNX model: ir_version 0; supported: 1 to 20");
}

#[test]
fn a_cut_or_damaged_file_does_no_harm() {
    let file = draft().bytes();
    for length in 0..file.len() {
        // A cut between two fields is a smaller model; nothing panics.
        let _ = crate::compile(file.slice(..length), &crate::Options::default());
    }
    for bit in 0..file.len() * 8 {
        let mut wrong = file.to_vec();
        wrong[bit / 8] ^= 1 << (bit % 8);
        let _ = crate::compile(wrong.into(), &crate::Options::default());
    }
}

#[test]
fn operator_sets() {
    let with = |imports: &[(Option<&str>, i64)]| {
        let mut draft = draft();
        let import = |(domain, version): &(Option<&str>, i64)| onnx::OperatorSetIdProto {
            domain: domain.map(str::to_owned),
            version: Some(*version),
        };
        draft.0.opset_import = imports.iter().map(import).collect();
        draft
    };
    let opset = |draft: &Draft| import(draft.bytes()).unwrap().opset;
    assert_eq!(opset(&with(&[(Some("ai.onnx"), 7), (Some("com.microsoft"), 1)])), 7);
    assert_eq!(refused(&with(&[])), "model: no opset of domain `ai.onnx` is imported");
    assert_eq!(refused(&with(&[(None, -1)])), "model: opset -1 is none");
    let two = refused(&with(&[(None, 7), (Some(""), 8)]));
    assert_eq!(two, "model: opsets [7, 8] of one domain; expected one");
    let mut old = with(&[]);
    old.0.ir_version = Some(2);
    assert_eq!(opset(&old), 1);
}

#[test]
fn constants_of_every_spelling() {
    let mut draft = draft().int64s("i", &[2], &[1, -1]);
    draft.graph().initializer.push(onnx::TensorProto {
        dims: vec![1],
        data_type: Some(6),
        int32_data: vec![-7],
        name: Some("j".to_owned()),
        ..onnx::TensorProto::default()
    });
    draft.graph().initializer.push(onnx::TensorProto {
        dims: vec![1],
        data_type: Some(1),
        float_data: vec![0.5],
        name: Some("f".to_owned()),
        ..onnx::TensorProto::default()
    });
    let imported = import(draft.bytes()).unwrap();
    let bytes = |name: &str| imported.constants[name].as_ref().unwrap().bytes.to_vec();
    assert_eq!(bytes("i"), [1i64.to_le_bytes(), (-1i64).to_le_bytes()].concat());
    assert_eq!(bytes("j"), (-7i32).to_le_bytes());
    assert_eq!(bytes("f"), 0.5f32.to_le_bytes());
}

fn broken(edit: impl FnOnce(&mut onnx::TensorProto)) -> String {
    let mut draft = draft();
    edit(&mut draft.graph().initializer[0]);
    draft.refused(&[])
}

#[test]
fn constants_that_are_refused_when_used() {
    let external = broken(|tensor| {
        tensor.data_location = Some(1);
        tensor.raw_data = None;
        tensor.external_data = vec![onnx::StringStringEntryProto {
            key: Some("location".to_owned()),
            value: Some("weights.bin".to_owned()),
        }];
    });
    let expected = "initializer `w`: its data lies in another file, `weights.bin`, which is not \
                    there; put it beside the model";
    assert_eq!(external, expected);
    let short = broken(|tensor| tensor.dims = vec![3]);
    assert_eq!(short, "initializer `w`: 8 bytes; float32 [3] has 12");
    let negative = broken(|tensor| tensor.dims = vec![-2]);
    assert_eq!(negative, "initializer `w`: dim 0 is -2; expected 0 or more");
    let text = broken(|tensor| tensor.data_type = Some(8));
    assert!(text.starts_with("initializer `w`: is string; supported: float32, "), "{text}");
    let huge = broken(|tensor| tensor.dims = vec![i64::MAX, i64::MAX]);
    assert!(huge.contains("more than 1099511627776 elements"), "{huge}");
    // One that nobody uses does no harm.
    let mut unused = draft().floats("other", &[1], &[1.0]);
    unused.graph().initializer[1].data_type = Some(8);
    unused.compile(&[]).unwrap();
}

#[test]
fn weights_in_files_beside_the_model() {
    let with = |entries: &[(&str, &str)]| {
        let mut draft = draft();
        let tensor = &mut draft.graph().initializer[0];
        (tensor.data_location, tensor.raw_data) = (Some(1), None);
        let entry = |(key, value): &(&str, &str)| onnx::StringStringEntryProto {
            key: Some((*key).to_owned()),
            value: Some((*value).to_owned()),
        };
        tensor.external_data = entries.iter().map(entry).collect();
        draft.bytes()
    };
    let file = Bytes::from([9.0f32, 1.0, 2.0, 9.0].map(f32::to_le_bytes).concat());
    let files = [("w.bin".to_owned(), file.clone())];
    let part = [("location", "w.bin"), ("offset", "4"), ("length", "8"), ("checksum", "?")];
    let imported = import_with(with(&part), &files).unwrap();
    let own = &imported.constants["w"].as_ref().unwrap().bytes;
    assert_eq!(own.as_ptr().addr() - file.as_ptr().addr(), 4, "the same memory");
    assert_eq!((own.len(), external_files(with(&part)).unwrap()), (8, vec!["w.bin".to_owned()]));
    let rest = [("location", "w.bin"), ("offset", "8")];
    import_with(with(&rest), &files).unwrap().constants["w"].as_ref().unwrap();
    let refused = |entries: &[(&str, &str)]| {
        let constants = import_with(with(entries), &files).unwrap().constants;
        constants["w"].as_ref().unwrap_err().clone()
    };
    assert_eq!(refused(&[]), "its data lies in another file, without a name");
    let far = refused(&[("location", "w.bin"), ("offset", "4"), ("length", "16")]);
    assert_eq!(far, "its data are 16 bytes from 4 on in `w.bin`, which has 16");
    let most = u64::MAX.to_string();
    refused(&[("location", "w.bin"), ("offset", &most), ("length", &most)]);
    refused(&[("location", "w.bin"), ("offset", &most)]);
    let text = refused(&[("location", "w.bin"), ("offset", "-4")]);
    assert_eq!(text, "`offset` of its data in `w.bin` is \"-4\": no number");
    assert_eq!(refused(&[("location", "w.bin")]), "16 bytes; float32 [2] has 8");
}

#[test]
fn two_of_one_name_are_refused() {
    let twice = draft().floats("w", &[1], &[1.0]);
    assert_eq!(refused(&twice), "initializer `w`: there are two of this name");
    let mut sparse = draft();
    let values = onnx::TensorProto { name: Some("s".to_owned()), ..onnx::TensorProto::default() };
    let values = Some(values);
    sparse.graph().sparse_initializer.push(onnx::SparseTensorProto { values });
    assert!(refused(&sparse).contains("initializer `s`: sparse constants are not supported"));
    let mut attribute = draft();
    let own = onnx::AttributeProto { name: Some("a".to_owned()), ..Default::default() };
    attribute.graph().node[0].attribute = vec![own.clone(), own];
    assert_eq!(refused(&attribute), "node `Add.y` (Add): attribute `a` is there twice");
}

#[test]
fn attributes_without_a_kind_are_told_by_their_field() {
    let own = |edit: &dyn Fn(&mut onnx::AttributeProto)| {
        let mut attribute = onnx::AttributeProto::default();
        edit(&mut attribute);
        value(attribute)
    };
    assert_eq!(own(&|a| a.i = Some(3)), AttributeValue::Int(3));
    assert_eq!(own(&|a| a.f = Some(0.5)), AttributeValue::Float(0.5));
    assert_eq!(own(&|a| a.ints = vec![1]), AttributeValue::Ints(vec![1]));
    assert_eq!(own(&|a| a.floats = vec![1.0]), AttributeValue::Floats(vec![1.0]));
    assert_eq!(own(&|a| a.s = Some("VALID".into())), AttributeValue::Text("VALID".to_owned()));
    assert_eq!(own(&|a| a.kind = Some(5)), AttributeValue::Other("a graph"));
    let reference = own(&|a| a.ref_attr_name = Some("outer".to_owned()));
    assert!(matches!(reference, AttributeValue::Other(_)));
}

#[test]
fn a_node_without_a_name_is_told_by_its_output() {
    let mut draft = draft();
    draft.graph().node[0].name = None;
    draft.graph().node[0].op_type = Some("None".to_owned());
    assert!(draft.refused(&[]).starts_with("node #0 (output `y`) (None, opset 13): the op is not"));
}

#[test]
fn a_question_mark_is_no_name_of_a_dim() {
    let own = |name: &str| {
        dim(onnx::DimensionProto { dim_value: None, dim_param: Some(name.to_owned()) })
    };
    assert_eq!([own("?"), own(""), own("N")], [Dim::Open, Dim::Open, Dim::Named("N".to_owned())]);
}
