//! Shapes in symbols beside those that typing finds once dims have numbers.

use npu::ops::AttributeValue::{Int, Ints, Text};

use super::*;
use crate::testing::{D, Draft, FLOAT, INT64, noise};
use crate::{Options, compile, import, type_graph};

/// For how many tensors of a model both say a shape; they have to be the same, and `least` at
/// least.
fn agree(draft: &Draft, given: &[(&str, &[usize])], least: usize) {
    let imported = import(draft.bytes()).unwrap();
    let symbols = symbols(&imported);
    let input_shapes =
        given.iter().map(|(name, dims)| ((*name).to_owned(), dims.to_vec())).collect();
    let options = Options { input_shapes, ..Options::default() };
    let Some(shapes) = symbols.shapes(given) else {
        panic!("{given:?} is said not to fit: {symbols}")
    };
    let typed = type_graph(imported, &options).unwrap();
    let mut count = 0;
    for tensor in &typed.tensors {
        let Some(found) = shapes.get(tensor.name.as_str()) else { continue };
        let own = tensor.info.shape.dims().iter().map(|dim| i64::try_from(*dim).unwrap());
        assert_eq!(*found, own.collect::<Vec<_>>(), "`{}` of {given:?}", tensor.name);
        count += 1;
    }
    assert!(count >= least, "{count} of {} tensors: {symbols}", typed.tensors.len());
}

fn text(draft: &Draft) -> String {
    symbols(&import(draft.bytes()).unwrap()).to_string()
}

const IMAGE: [D; 4] = [D::P("n"), D::N(3), D::P("h"), D::P("w")];

fn conv(draft: Draft, from: &str, to: &str, maps: (i64, i64), stride: i64) -> Draft {
    let weights = format!("{to}.w");
    let count = usize::try_from(maps.0 * maps.1 * 9).unwrap();
    draft.floats(&weights, &[maps.1, maps.0, 3, 3], &noise(count, 1)).node_with(
        "Conv",
        &[from, &weights],
        to,
        &[("pads", Ints(vec![1, 1, 1, 1])), ("strides", Ints(vec![stride, stride]))],
    )
}

/// Down by two convolutions, up again by Resize, and added.
fn ladder() -> Draft {
    let draft = Draft::new(13).input("x", FLOAT, &IMAGE);
    let draft = conv(draft, "x", "half", (3, 4), 2);
    let draft = conv(draft, "half", "quarter", (4, 4), 2);
    draft
        .floats("twice", &[4], &[1.0, 1.0, 2.0, 2.0])
        .node("Resize", &["quarter", "", "twice"], "up")
        .node("Add", &["half", "up"], "sum")
        .node("Resize", &["sum", "", "twice"], "whole")
        .node("ReduceMean", &["x"], "mean")
        .node("Add", &["whole", "mean"], "y")
        .output("y", FLOAT, None)
}

#[test]
fn what_dims_fit_is_found() {
    let said = text(&ladder());
    let expected = "`x` [n, 3, h, w] -> \
                    `y` [n, 4, 2 * floor((h + 1) / 2), 2 * floor((w + 1) / 2)]; \
                    fits where `h` is a multiple of 4; `w` is a multiple of 4";
    assert_eq!(said, expected);
    for (h, w) in [(4, 4), (32, 64), (3, 8), (7, 7)] {
        agree(&ladder(), &[("x", &[2, 3, h, w])], 9);
    }
    let refused = ladder().refused(&[("x", &[1, 3, 5, 8])]);
    assert!(
        refused.ends_with("; this model fits where `h` is a multiple of 4; `w` is a multiple of 4"),
        "{refused}"
    );
    let open = ladder().refused(&[]);
    assert!(open.contains("is open; give a shape"), "{open}");
    assert!(open.contains("; the model is `x` [n, 3, h, w] -> `y` [n, 4, "), "{open}");
}

#[test]
fn dims_travel_in_small_tensors() {
    let draft = Draft::new(13)
        .input("x", FLOAT, &IMAGE)
        .node("Shape", &["x"], "shape")
        .int64s("zero", &[], &[0])
        .int64s("first", &[1], &[0])
        .int64s("two", &[1], &[2])
        .int64s("four", &[1], &[4])
        .int64s("minus", &[1], &[-1])
        .node("Gather", &["shape", "zero"], "batch")
        .node("Unsqueeze", &["batch", "first"], "batches")
        .node("Slice", &["shape", "two", "four"], "size")
        .node("Mul", &["size", "two"], "double")
        .node("Concat", &["batches", "minus"], "flat");
    // Concat needs its axis.
    let mut draft = draft;
    let last = draft.graph().node.last_mut().unwrap();
    last.attribute.push(crate::onnx::AttributeProto {
        name: Some("axis".to_owned()),
        i: Some(0),
        kind: Some(2),
        ..Default::default()
    });
    let draft = draft
        .node("Reshape", &["x", "flat"], "rows")
        .node_with("Concat", &["batches", "two", "double"], "all", &[("axis", Int(0))])
        .node("ConstantOfShape", &["all"], "zeros")
        .output("rows", FLOAT, None)
        .output("zeros", FLOAT, None);
    let said = text(&draft);
    assert!(said.contains("`rows` [n, 3 * h * w], `zeros` [n, 2, 2 * h, 2 * w]"), "{said}");
    agree(&draft, &[("x", &[2, 3, 5, 7])], 10);
}

#[test]
fn conditions_of_other_kinds_are_said() {
    let pools = Draft::new(13)
        .input("x", FLOAT, &IMAGE)
        .node_with(
            "MaxPool",
            &["x"],
            "small",
            &[("kernel_shape", Ints(vec![7, 3])), ("strides", Ints(vec![2, 3]))],
        )
        .node_with("SpaceToDepth", &["x"], "deep", &[("blocksize", Int(3))])
        .output("small", FLOAT, None)
        .output("deep", FLOAT, None);
    let said = text(&pools);
    let fits = "fits where `h` is a multiple of 3, at least 9; `w` is a multiple of 3";
    assert!(said.ends_with(fits), "{said}");
    assert!(said.contains("`deep` [n, 27, floor(h / 3), floor(w / 3)]"), "{said}");
    agree(&pools, &[("x", &[1, 3, 12, 6])], 3);
    let equal = Draft::new(13)
        .input("a", FLOAT, &[D::P("m"), D::P("k")])
        .input("b", FLOAT, &[D::Open, D::P("n")])
        .node("MatMul", &["a", "b"], "y")
        .output("y", FLOAT, None);
    assert!(text(&equal).ends_with("-> `y` [m, n]; fits where k = b.0"), "{}", text(&equal));
    agree(&equal, &[("a", &[2, 5]), ("b", &[5, 3])], 3);
    let imported = import(equal.bytes()).unwrap();
    assert_eq!(symbols(&imported).shapes(&[("a", &[2, 5]), ("b", &[4, 3])]), None);
    let refused = equal.refused(&[("a", &[2, 5]), ("b", &[4, 3])]);
    assert!(refused.ends_with("; this model fits where k = b.0"), "{refused}");
}

#[test]
fn windows_beside_typing() {
    for (index, attributes) in [
        vec![("auto_pad", Text("SAME_UPPER".to_owned())), ("strides", Ints(vec![2, 3]))],
        vec![("auto_pad", Text("VALID".to_owned())), ("strides", Ints(vec![3, 1]))],
        vec![("ceil_mode", Int(1)), ("strides", Ints(vec![2, 2]))],
        vec![("ceil_mode", Int(1)), ("strides", Ints(vec![2, 2])), ("pads", Ints(vec![1; 4]))],
        vec![("dilations", Ints(vec![2, 1])), ("pads", Ints(vec![1, 0, 0, 1]))],
    ]
    .into_iter()
    .enumerate()
    {
        let mut attributes = attributes;
        attributes.push(("kernel_shape", Ints(vec![3, 2])));
        let draft = Draft::new(13)
            .input("x", FLOAT, &IMAGE)
            .node_with("MaxPool", &["x"], "y", &attributes)
            .output("y", FLOAT, None);
        for h in 5..14 {
            for w in 3..9 {
                // A last place may begin behind the image where pads are wide: not said.
                agree(&draft, &[("x", &[1, 3, h, w])], if index == 3 { 1 } else { 2 });
            }
        }
    }
    for attributes in [
        vec![("strides", Ints(vec![2, 3])), ("output_padding", Ints(vec![1, 0]))],
        vec![("auto_pad", Text("SAME_LOWER".to_owned())), ("strides", Ints(vec![2, 2]))],
        vec![("pads", Ints(vec![1, 0, 1, 1])), ("dilations", Ints(vec![1, 2]))],
    ] {
        let draft = Draft::new(13)
            .input("x", FLOAT, &IMAGE)
            .floats("w", &[3, 2, 3, 2], &noise(36, 2))
            .node_with("ConvTranspose", &["x", "w"], "y", &attributes)
            .output("y", FLOAT, None);
        for h in 2..6 {
            agree(&draft, &[("x", &[1, 3, h, 4])], 3);
        }
    }
}

#[test]
fn moves_beside_typing() {
    let list = [D::P("a"), D::N(6), D::P("b")];
    let with = |op: &str, more: &[(&str, &[i64])], attributes: &[(&str, _)]| {
        let mut draft = Draft::new(13).input("x", FLOAT, &list);
        let mut names = vec!["x"];
        for (name, values) in more {
            let count = i64::try_from(values.len()).unwrap();
            draft = draft.int64s(name, &[count], values);
            names.push(name);
        }
        draft.node_with(op, &names, "y", attributes).output(
            "y",
            if op == "ArgMax" { INT64 } else { FLOAT },
            None,
        )
    };
    let far = i64::MAX;
    let slices: [&[(&str, &[i64])]; 5] = [
        &[("s", &[1, 0]), ("e", &[far, -2]), ("axes", &[0, 2])],
        &[("s", &[-3]), ("e", &[far]), ("axes", &[2])],
        &[("s", &[0]), ("e", &[far]), ("axes", &[2]), ("steps", &[3])],
        &[("s", &[-1]), ("e", &[i64::MIN]), ("axes", &[0]), ("steps", &[-1])],
        &[("s", &[-1]), ("e", &[2]), ("axes", &[2]), ("steps", &[-2])],
    ];
    let mut drafts: Vec<Draft> = slices.iter().map(|more| with("Slice", more, &[])).collect();
    drafts.extend([
        with("Transpose", &[], &[("perm", Ints(vec![2, 0, 1]))]),
        with("Flatten", &[], &[("axis", Int(2))]),
        with("Unsqueeze", &[("axes", &[0, -1])], &[]),
        with("Reshape", &[("to", &[0, 2, 3, -1])], &[]),
        with("Reshape", &[("to", &[-1, 2])], &[]),
        with("Tile", &[("times", &[2, 1, 3])], &[]),
        with("Pad", &[("pads", &[1, 0, 2, 0, 0, -1])], &[]),
        with("Expand", &[("to", &[4, 1, 1, 1])], &[]),
        with("Gather", &[("at", &[0, 5, 2])], &[("axis", Int(1))]),
        with("ReduceSum", &[("axes", &[0, 2])], &[("keepdims", Int(0))]),
        with("ArgMax", &[], &[("axis", Int(-1))]),
        with("Softmax", &[], &[]),
    ]);
    drafts.push(with("Concat", &[], &[("axis", Int(2))]).node("Identity", &["y"], "z"));
    for draft in &drafts {
        for (a, b) in [(1, 5), (4, 4), (1, 8)] {
            agree(draft, &[("x", &[a, 6, b])], 2);
        }
    }
    // Scales of every size, rounded down.
    for scale in [2.0, 0.5, 1.25, 0.375, 3.7] {
        let draft = Draft::new(13)
            .input("x", FLOAT, &IMAGE)
            .floats("scales", &[4], &[1.0, 1.0, scale, 1.0])
            .node("Resize", &["x", "", "scales"], "y")
            .output("y", FLOAT, None);
        // 3.7 is a float of more halves than are followed.
        let least = if scale == 3.7 { 2 } else { 3 };
        (3..40).for_each(|h| agree(&draft, &[("x", &[1, 3, h, 4])], least));
    }
}

#[test]
fn what_a_rule_asked_before_it_gave_up_is_not_asked() {
    let draft = Draft::new(13)
        .input("x", FLOAT, &[D::P("n")])
        .int64s("start", &[1], &[-3])
        .int64s("end", &[1], &[i64::MAX])
        .int64s("axis", &[1], &[0])
        .int64s("step", &[1], &[i64::MIN])
        .node("Slice", &["x", "start", "end", "axis", "step"], "y")
        .output("y", FLOAT, None);
    let said = text(&draft);
    assert!(said.contains("not followed through Slice") && !said.contains("fits"), "{said}");
    let long = Draft::new(13)
        .input("x", FLOAT, &[D::P(include_str!("tests.rs"))])
        .node("Relu", &["x"], "y")
        .output("y", FLOAT, None);
    assert!(text(&long).len() < 400, "{}", text(&long));
}

#[test]
fn a_missing_rule_is_said_and_hides_what_is_behind() {
    let draft = Draft::new(13)
        .input("x", FLOAT, &[D::P("n"), D::P("n")])
        .node("Det", &["x"], "d")
        .node("Relu", &["d"], "y")
        .output("y", FLOAT, None);
    let said = text(&draft);
    let expected = "`x` [n, n] -> `y` of a shape that is not known; shapes are not followed \
                    through Det `Det.d`";
    assert_eq!(said, expected);
    // A model without open dims says nothing.
    let closed = Draft::new(13)
        .input("x", FLOAT, &[D::N(2), D::N(3)])
        .node("Relu", &["x"], "y")
        .output("y", FLOAT, None);
    assert!(compile(closed.bytes(), &Options::default()).unwrap().symbols.is_none());
}

/// Real models, where `DFLOW_OCR_MODELS` leads to them.
#[test]
fn models_of_text_beside_typing() {
    let files = std::env::var_os("DFLOW_OCR_MODELS").and_then(|dir| std::fs::read_dir(dir).ok());
    let Some(files) = files else {
        eprintln!("skipped: DFLOW_OCR_MODELS leads to no models of text");
        return;
    };
    for path in files.flatten().map(|entry| entry.path()) {
        let name = path.display().to_string();
        let sizes: &[[usize; 4]] = match () {
            () if name.contains("_det_") => &[[1, 3, 320, 320], [2, 3, 96, 640]],
            () if name.contains("_rec_") => &[[1, 3, 48, 320], [3, 3, 48, 64]],
            () if name.contains("_cls_") => &[[1, 3, 48, 192], [2, 3, 48, 192]],
            () => continue,
        };
        let model = std::fs::read(&path).unwrap();
        let imported = import(model.into()).unwrap();
        let symbols = symbols(&imported);
        eprintln!("{name}: {symbols}");
        assert!(symbols.lost.is_empty(), "{name}: {symbols}");
        let input = imported.input_names().next().unwrap().to_owned();
        for dims in sizes {
            let options = Options {
                input_shapes: vec![(input.clone(), dims.to_vec())],
                ..Options::default()
            };
            let typed = type_graph(imported.clone(), &options).unwrap();
            let shapes = symbols.shapes(&[(&input, dims)]).unwrap();
            let wrong = typed.tensors.iter().filter(|tensor| {
                let own = tensor.info.shape.dims().iter().map(|dim| i64::try_from(*dim).unwrap());
                let found = shapes.get(tensor.name.as_str());
                found.is_none_or(|found| *found != own.collect::<Vec<_>>())
            });
            let wrong: Vec<_> = wrong.map(|tensor| (&tensor.name, tensor.info)).collect();
            assert!(wrong.is_empty(), "{name} of {dims:?}: {wrong:?}");
        }
    }
}
