//! `dflow compile` and `dflow inspect`, and the cache behind them.

use super::onnx;
use super::support::{Folder, command};

/// Exit code, stdout, stderr with a cache of its own.
fn run(folder: &Folder, args: &[&str]) -> (i32, String, String) {
    let output = command(args).env("DFLOW_CACHE_DIR", folder.path("cache")).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn kept(folder: &Folder) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder.path("cache/om"));
    entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_model_is_compiled_once_and_again_when_the_entry_is_damaged() {
    let folder = Folder::new("om-once");
    let model = folder.file("m.onnx", &onnx::model("Add", &["p", "q"], None));
    let inputs = ["--input", "p=2x3", "--input", "q=2x3"];
    let compile = [&["compile", &model][..], &inputs].concat();
    let (exit, out, err) = run(&folder, &[&compile[..], &["--no-cache"]].concat());
    assert_eq!((exit, kept(&folder).len()), (0, 0), "{err}");
    assert!(out.contains("m.om: 1 tasks, 6 FLOPs"), "{out}");
    let first = std::fs::read(folder.path("m.om")).unwrap();
    let (_, _, err) = run(&folder, &compile);
    assert!(err.contains("compile m.onnx: done in"), "{err}");
    let (_, _, err) = run(&folder, &compile);
    assert_eq!(err, "", "from the cache");
    // Other dims, another program.
    let (_, _, err) = run(&folder, &["compile", &model, "--input", "p=4x3", "--input", "q=4x3"]);
    assert!(err.contains("done in"), "{err}");
    assert_eq!(kept(&folder).len(), 2);
    for entry in kept(&folder) {
        let mut bytes = std::fs::read(&entry).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&entry, bytes).unwrap();
    }
    let output = folder.path("n.om");
    let (exit, _, err) = run(&folder, &[&compile[..], &["-o", &output]].concat());
    assert!(exit == 0 && err.contains("is damaged") && err.contains("done in"), "{err}");
    assert_eq!(std::fs::read(&output).unwrap(), first, "the same model, the same bytes");
    let (_, _, err) = run(&folder, &compile);
    assert_eq!(err, "", "whole again");
}

#[test]
fn what_is_in_use_at_once_stands_beside_the_arena() {
    let folder = Folder::new("om-peak");
    let model = folder.file("m.onnx", &onnx::two_products());
    let (exit, out, err) = run(&folder, &["compile", &model]);
    assert_eq!(exit, 0, "{err}");
    assert!(out.contains("arena 64 B (64 B in use at once)"), "{out}");
}

#[test]
fn a_link_is_followed_and_a_fifo_is_written_into() {
    let folder = Folder::new("om-named");
    let model = folder.file("m.onnx", &onnx::model("Add", &["p", "q"], Some(2)));
    let real = folder.file("real.om", b"old");
    let (link, to_nothing) = (folder.path("link.om"), folder.path("new-link.om"));
    std::os::unix::fs::symlink(&real, &link).unwrap();
    std::os::unix::fs::symlink(folder.path("new.om"), &to_nothing).unwrap();
    let fifo = folder.path("fifo.om");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let piped = fifo.clone();
    let reader = std::thread::spawn(move || std::fs::read(piped).unwrap());
    for output in [&link, &to_nothing, &fifo] {
        let (exit, _, err) = run(&folder, &["compile", &model, "-o", output]);
        assert_eq!(exit, 0, "{output}: {err}");
    }
    let program = reader.join().unwrap();
    assert!(program.len() > 100);
    assert_eq!(std::fs::read(&real).unwrap(), program);
    assert_eq!(std::fs::read(folder.path("new.om")).unwrap(), program);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink(), "still a link");
    // Not over the model, by whatever name.
    let alias = folder.path("alias.om");
    std::os::unix::fs::symlink(&model, &alias).unwrap();
    let before = std::fs::read(&model).unwrap();
    for output in [&model, &alias] {
        let (exit, _, err) = run(&folder, &["compile", &model, "-o", output]);
        assert!(exit == 2 && err.contains("is the model itself"), "{exit} {err}");
    }
    assert_eq!(std::fs::read(&model).unwrap(), before);
}

#[test]
fn what_is_no_file_is_refused_and_long_names_are_cut() {
    let folder = Folder::new("om-odd");
    let (exit, _, err) = run(&folder, &["inspect", "/dev/zero"]);
    assert!(exit == 1 && err.contains("/dev/zero: not a regular file"), "{exit} {err}");
    let long = format!("\x1b[2J{}", "x".repeat(100_000));
    let model = folder.file("m.onnx", &onnx::model("Add", &[&long, "q"], Some(2)));
    let (exit, out, err) = run(&folder, &["inspect", &model]);
    assert_eq!(exit, 0, "{err}");
    assert!(out.contains("\\u{1b}[2Jxxx") && out.contains('…') && out.len() < 5_000, "{out}");
}

#[test]
fn inspect_shows_a_model_and_a_compiled_one() {
    let folder = Folder::new("om-inspect");
    let model = folder.file("m.onnx", &onnx::model("Add", &["p", "q"], Some(2)));
    let (exit, of_model, err) = run(&folder, &["inspect", &model]);
    assert_eq!(exit, 0, "{err}");
    let (exit, _, err) = run(&folder, &["compile", &model]);
    assert_eq!(exit, 0, "{err}");
    let (exit, of_program, err) = run(&folder, &["inspect", &folder.path("m.om")]);
    assert_eq!((exit, err.as_str()), (0, ""));
    for word in ["input 0  p: float32 [2, 3]", "output 0  y/out: float32 [2, 3]", "Add", "the_node"]
    {
        assert!(of_model.contains(word) && of_program.contains(word), "{word}\n{of_model}");
    }
    let body = |text: &str| text.split_once(": ").map(|(_, rest)| rest.to_owned());
    assert_eq!(body(&of_model), body(&of_program));
}

#[test]
fn machines_are_named_and_sections_shown() {
    let folder = Folder::new("om-isa");
    let model = folder.file("m.onnx", &onnx::model("Add", &["p", "q"], Some(2)));
    let (exit, _, err) = run(&folder, &["compile", &model, "--isa", "any,vnni", "--explain"]);
    assert_eq!(exit, 0, "{err}");
    // There are no quantised weights in it: the program is that for every machine.
    let om = folder.path("m.om");
    let first = std::fs::read(&om).unwrap();
    for isa in ["native", "vnni"] {
        let (exit, _, err) = run(&folder, &["compile", &om, "--isa", isa, "-o", &om]);
        assert_eq!((exit, err.as_str()), (0, ""), "{isa}");
        assert_eq!(std::fs::read(&om).unwrap(), first, "{isa}");
    }
    let (exit, out, err) = run(&folder, &["inspect", &om]);
    assert_eq!((exit, err.as_str()), (0, ""));
    assert!(out.contains("WEIGHTS") && !out.contains("PACKED"), "{out}");
    let (exit, _, err) = run(&folder, &["compile", &model, "--isa", "amx"]);
    assert!(exit == 2 && err.contains("amx") && err.contains("any, vnni, native"), "{err}");
}

#[test]
fn a_frozen_graph_is_compiled_whatever_its_name() {
    let folder = Folder::new("om-frozen");
    let (model, named) = (onnx::frozen_sum(), ["sum.pb", "sum.model"]);
    for name in named {
        let (exit, out, err) = run(&folder, &["inspect", &folder.file(name, &model)]);
        assert_eq!(exit, 0, "{err}");
        for word in ["input 0  a: int32 [3]", "input 1  b: int32 [3]", "output 0  sum: int32 [3]"] {
            assert!(out.contains(word), "{word}\n{out}");
        }
    }
    let cut = folder.file("cut.pb", &model[..model.len() - 1]);
    let (exit, _, err) = run(&folder, &["compile", &cut]);
    assert!(exit == 1 && err.contains("cut.pb: not a frozen TensorFlow graph: "), "{err}");
}

#[test]
fn what_became_of_each_node_is_said() {
    let folder = Folder::new("om-explain");
    let model = folder.file("m.onnx", &onnx::model("Add", &["p", "q"], Some(2)));
    for _anew in 0..2 {
        let (exit, out, err) = run(&folder, &["compile", &model, "--explain"]);
        assert!(exit == 0 && err.contains("done in"), "{err}");
        assert!(out.ends_with("\nthe_node (Add): task 0, Add\n"), "{out}");
    }
    assert!(!run(&folder, &["compile", &model, "--explain"]).1.contains("shapes: "));
    let open = folder.file("open.onnx", &onnx::model("Add", &["p", "q"], None));
    let given = ["compile", &open, "--input", "p=4x3", "--explain"];
    let (exit, out, err) = run(&folder, &given);
    let shapes = "\nshapes: `p` [N, 3], `q` [N, 3] -> `y/out` [N, 3]\n";
    assert!(exit == 0 && out.contains(shapes), "{out}{err}");
    let (exit, out, _) = run(&folder, &["compile", &folder.path("m.om"), "--explain"]);
    assert!(exit == 0 && out.contains("has no nodes to explain"), "{out}");
}

#[test]
fn names_of_a_model_do_no_harm_to_a_terminal() {
    let folder = Folder::new("om-escape");
    let model =
        folder.file("m.onnx", &onnx::model("Add", &["p\u{1b}[31m\n", &"q".repeat(9000)], None));
    let (exit, out, err) = run(&folder, &["compile", &model]);
    let shown = "input `p\\u{1b}[31m\\n`: dim 0, `N`, is open";
    assert!(exit == 1 && out.is_empty() && err.contains(shown) && err.len() < 4000, "{err}");
}

#[test]
fn streams_are_bounded_and_shown() {
    let folder = Folder::new("om-streams");
    let model = folder.file("m.onnx", &onnx::model("Add", &["p", "q"], Some(2)));
    for wrong in ["0", "9", "x"] {
        let (exit, _, err) = run(&folder, &["compile", &model, "--streams", wrong]);
        assert!(exit == 2 && err.contains("--streams"), "{err}");
    }
    // Another number of streams is another program of the cache.
    for streams in ["1", "2"] {
        let (exit, out, err) = run(&folder, &["inspect", &model, "--json", "--streams", streams]);
        assert!(exit == 0 && err.contains("done in"), "{err}");
        let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
        let task = &shown["tasks"][0];
        assert_eq!(
            (&task["stream"], &task["after"]),
            (&serde_json::json!(0), &serde_json::json!([]))
        );
    }
}

#[test]
fn a_profile_says_what_each_task_takes() {
    let folder = Folder::new("om-profile");
    let model = folder.file("m.onnx", &onnx::model("Add", &["p", "q"], Some(2)));
    let (exit, out, err) = run(&folder, &["inspect", &model, "--profile"]);
    assert_eq!(exit, 0, "{err}");
    for word in ["runs on one thread", "us a run", "share", "GFLOP/s", "Add", "100.0 %", "the_node"]
    {
        assert!(out.contains(word), "{word}\n{out}");
    }
    let (exit, out, err) = run(&folder, &["inspect", &model, "--profile", "--json"]);
    assert_eq!(exit, 0, "{err}");
    let object: serde_json::Value = serde_json::from_str(&out).unwrap();
    let (profile, task) = (&object["profile"], &object["tasks"][0]);
    assert!(profile["runs"].as_u64().unwrap() >= 5, "{out}");
    assert!(task["us"].is_f64() && profile["us"].is_f64(), "{out}");
    assert_eq!((&task["op"], &task["flops"]), (&"Add".into(), &6.into()), "{out}");
    assert_eq!(task["outputs"][0]["shape"], serde_json::json!([2, 3]));
    let (_, out, _) = run(&folder, &["inspect", &model, "--json"]);
    let object: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(object["profile"].is_null() && object["tasks"][0]["us"].is_null(), "{out}");
}

#[test]
fn weights_beside_a_model_are_a_part_of_it() {
    let folder = Folder::new("om-beside");
    let model = folder.file("m.onnx", &onnx::with_weights_in("w.bin"));
    let (exit, _, err) = run(&folder, &["compile", &model]);
    assert!(exit == 1 && err.contains("data in the file `w.bin`: No such file"), "{err}");
    folder.file("w.bin", &[7; 16]);
    let (exit, _, err) = run(&folder, &["compile", &model]);
    assert!(exit == 0 && err.contains("done in"), "{err}");
    let (_, _, err) = run(&folder, &["compile", &model]);
    assert_eq!(err, "", "from the cache");
    folder.file("w.bin", &[8; 16]);
    let (_, _, err) = run(&folder, &["compile", &model]);
    assert!(err.contains("done in"), "other weights, another program: {err}");
    folder.file("w.bin", &[8; 12]);
    let (exit, _, err) = run(&folder, &["compile", &model]);
    assert!(exit == 1 && err.contains("12 bytes from 4 on in `w.bin`, which has 12"), "{err}");
    // Out of the folder, by name and by a link.
    let outside = Folder::new("om-outside");
    let secret = outside.file("secret.bin", &[1; 16]);
    std::os::unix::fs::symlink(&secret, folder.path("link.bin")).unwrap();
    for (name, why) in [
        (secret.as_str(), "it is not in the model's folder"),
        ("../om-outside/secret.bin", "it is not in the model's folder"),
        ("link.bin", "a link leads out of the model's folder"),
    ] {
        let model = folder.file("out.onnx", &onnx::with_weights_in(name));
        let (exit, _, err) = run(&folder, &["compile", &model]);
        assert!(exit == 1 && err.contains(why) && err.contains("to do:"), "{name}: {err}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let folder = Folder::new("om-refuse");
    let open = folder.file("open.onnx", &onnx::model("Add", &["p", "q"], None));
    let op = folder.file("op.onnx", &onnx::model("Frobnicate", &["p"], Some(2)));
    let broken = folder.file("broken.om", b"dflowOM\0 and no more");
    let cases: [(&[&str], i32, &[&str]); 5] = [
        (&["compile", &open], 1, &["input `p`", "--input NAME=1x3x224x224"]),
        (&["inspect", &op], 1, &["the_node", "Frobnicate", "opset 15"]),
        (&["inspect", &broken], 1, &["broken.om", "compile it again"]),
        (&["inspect", "/no/such.onnx"], 1, &["No such file"]),
        (&["compile", &open, "--input", "p=2,3"], 2, &["`p=2,3`", "NAME=DIMS"]),
    ];
    for (args, code, words) in cases {
        let (exit, _, err) = run(&folder, args);
        assert_eq!(exit, code, "{err}");
        for word in words.iter().chain(&["found:", "expected:", "to do:"]) {
            assert!(err.contains(word), "{word:?} is not in:\n{err}");
        }
    }
}

#[test]
fn dims_for_a_compiled_model_are_its_own_or_refused() {
    let folder = Folder::new("om-dims");
    let model = folder.file("m.onnx", &onnx::model("Add", &["p", "q"], Some(2)));
    let om = folder.path("m.om");
    let (exit, _, err) = run(&folder, &["compile", &model, "-o", &om]);
    assert_eq!(exit, 0, "{err}");
    for command in ["inspect", "compile"] {
        let (exit, _, err) = run(&folder, &[command, &om, "--input", "p=2x3"]);
        assert_eq!(exit, 0, "{err}");
        for (input, found) in [
            ("p=4x3", "found:    `p` as [4, 3]"),
            ("nobody=2x3", "found:    `nobody`, which is no input of the model"),
        ] {
            let (exit, _, err) = run(&folder, &[command, &om, "--input", input]);
            assert!(exit == 2 && err.contains(found), "{exit} {err}");
            assert!(err.contains("`p` as [2, 3], `q` as [2, 3]"), "{err}");
        }
    }
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let folder = Folder::new("om-nodir");
    let model = folder.file("m.onnx", &onnx::model("Add", &["p", "q"], Some(2)));
    let (nowhere, output) = (folder.path("nowhere"), folder.path("nowhere/m.om"));
    let (exit, _, err) = run(&folder, &["compile", &model, "-o", &output]);
    let found = format!("the folder {nowhere} is not there");
    assert!(exit != 0 && err.contains(&found) && err.contains("make the folder"), "{exit} {err}");
}

#[test]
fn a_model_that_is_cut_short_is_called_that() {
    let folder = Folder::new("om-cut");
    let whole = onnx::model("Add", &["p", "q"], Some(2));
    let model = folder.file("m.onnx", &whole[..whole.len() / 2]);
    for inputs in [&[][..], &["--input", "p=2x3"]] {
        let (exit, _, err) = run(&folder, &[&["inspect", &model][..], inputs].concat());
        for part in ["truncated: field `graph` at byte ", "fetch or export it anew"] {
            assert!(exit != 0 && err.contains(part), "{exit} {err}");
        }
    }
}
