//! Tests constants that stay in files: constants of a model, of a text and of `--params`. `tests/toy-format` contains
//! a model with weights beside it.

use super::Case;
use std::process::Command;

/// A model that contains a constant of 128 KiB twice, and a small constant.
const MODEL: &str = "toy 1\ninput x 128 256\nweights w w.bin 0 128 256\nweights s w.bin 4 1\nadd y x w\nmultiply z y w\nadd r z s\noutput r\n";

const LENGTH: usize = 128 * 256 * 4;

fn floats(n: usize) -> Vec<u8> {
    (0..n).flat_map(|at| ((at % 997) as f32 / 8.0).to_le_bytes()).collect()
}

fn case(name: &'static str) -> Case {
    let case = Case::new(name).crates(&["plugins/relax-ops", "plugins/relax-passes", "tests/toy-format"]);
    case.file("model.toy", MODEL).file("w.bin", floats(LENGTH / 4))
}

/// Arguments for a run that only reads and writes a module.
const READ: [&str; 2] = ["--passes", ""];

impl Case {
    fn reads(&self, file: &str, more: &[&str]) -> String {
        self.fine(&[&["run", file][..], &READ, more].concat())
    }

    fn read(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.path(file)).expect("a file")
    }
}

#[test]
fn large_constants_are_in_a_file_beside_the_text() {
    let case = case("weights_beside");
    case.reads("model.toy", &["-o", "out.py"]);
    let text = String::from_utf8(case.read("out.py")).expect("a text");
    assert!(text.contains("weights = I.weights(\"out.safetensors\")\n"), "{text}");
    assert_eq!(text.matches("weights[\"w0\"]").count(), 2, "one constant, used twice: {text}");
    assert!(text.contains("metadata[\"ir.GenericConst\"][0]"), "small constants stay in the text: {text}");
    let file = case.read("out.safetensors");
    assert!(file.ends_with(&case.read("w.bin")) && file.len() < LENGTH + 1000);
    // All ways lead to the same module.
    let inline = case.reads("model.toy", &[]);
    assert!(!inline.contains("weights["), "with standard output, weights are inline: {inline}");
    assert_eq!(case.reads("out.py", &[]), inline);
    assert_eq!(case.reads("out.py", &["--isolate"]), inline);
    assert_eq!(case.reads("model.toy", &["--isolate"]), inline);
    case.reads("out.py", &["--inline-weights", "-o", "inline.py"]);
    assert_eq!(String::from_utf8(case.read("inline.py")).expect("a text"), inline);
    // A text that is read and replaced, and a second text that refers to the file of the first.
    case.reads("out.py", &["-o", "out.py"]);
    assert_eq!((case.read("out.py"), case.read("out.safetensors")), (text.clone().into_bytes(), file.clone()));
    case.reads("out.py", &["-o", "other.py", "--weights", "out.safetensors"]);
    assert_eq!((case.read("other.py"), case.path("other.safetensors").exists()), (text.into_bytes(), false));
    case.reads("out.py", &["-o", "again.py"]);
    assert_eq!(case.read("again.safetensors"), file);
    // Passes see equal constants as equal, wherever they are.
    let merged = |file: &str| case.fine(&["run", file, "--passes", "EliminateCommonSubexpr,DeadCodeElimination"]);
    assert_eq!(merged("out.py"), merged("inline.py"));
}

/// The weights of a model that became parameters are an attribute.
#[test]
fn large_tensors_in_attributes_are_in_the_file_too() {
    const TEXT: &str = "weights = I.weights(\"out.safetensors\")\n@I.ir_module\nclass Module:\n    @R.function\n    \
                        def main(x: R.Tensor((128, 256), \"float32\"), w: R.Tensor((128, 256), \"float32\")):\n        \
                        R.func_attr({\"num_input\": 1, \"params\": [weights[\"w0\"]]})\n        return x\n";
    let case = case("weights_attributes").file("attribute.py", TEXT);
    case.reads("model.toy", &["-o", "out.py"]);
    case.reads("attribute.py", &["-o", "again.py"]);
    let text = String::from_utf8(case.read("again.py")).expect("a text");
    assert!(text.contains("\"params\": [weights[\"w0\"]]") && !text.contains("metadata["), "{text}");
    assert!(case.read("again.safetensors").ends_with(&case.read("w.bin")));
    let inline = case.reads("again.py", &["--inline-weights"]);
    assert!(inline.contains("metadata[\"ffi.Tensor\"][0]"), "{}", &inline[..400]);
    assert_eq!(case.reads("attribute.py", &["--inline-weights"]), inline);
}

/// A name in the file stands for data together with a type.
#[test]
fn the_same_bytes_can_be_constants_of_several_types() {
    let shapes = "toy 1\ninput x 128 256\nweights a w.bin 0 128 256\nweights b w.bin 0 256 128\nadd y x a\nadd c b b\noutput y\n";
    let case = case("weights_shapes").file("shapes.toy", shapes);
    let inline = case.reads("shapes.toy", &[]);
    case.reads("shapes.toy", &["-o", "out.py"]);
    let header = case.read("out.safetensors").len() - 2 * LENGTH;
    assert!(header.is_multiple_of(64) && header < 1000, "{header}");
    assert_eq!(case.reads("out.py", &[]), inline);
    case.reads("out.py", &["-o", "out.py"]);
    assert_eq!(case.reads("out.py", &[]), inline);
}

#[test]
fn files_that_others_need_are_not_replaced() {
    let case = case("weights_spared").file("result.safetensors", b"somebody's");
    let said = case.refused(&["run", "model.toy", "--passes", "", "-o", "result.py"], 2);
    assert!(said.contains("result.safetensors") && said.contains("was not written by passhost"), "{said}");
    assert_eq!((case.read("result.safetensors"), case.path("result.py").exists()), (b"somebody's".to_vec(), false));
    case.reads("model.toy", &["-o", "result.py", "--weights", "named.safetensors"]);
    case.reads("model.toy", &["-o", "result.py", "--weights", "named.safetensors"]);
    let said = case.refused(&["run", "model.toy", "--passes", "", "-o", "b.py", "--weights", "w.bin"], 2);
    assert!(said.contains("contains weights that the input uses"), "{said}");
    assert_eq!(case.read("w.bin"), floats(LENGTH / 4));
    std::fs::create_dir(case.path("sub")).expect("a folder");
    let said = case.refused(&["run", "model.toy", "--passes", "", "-o", "b.py", "--weights", "sub/w.safetensors"], 2);
    assert!(said.contains("is not a different file in the folder of the result"), "{said}");
    let said = case.refused(&["run", "model.toy", "--passes", "", "--weights", "w.safetensors"], 2);
    assert!(said.contains("name a file for the module with -o"), "{said}");
}

#[test]
fn a_text_with_weights_that_are_wrong_is_refused_with_the_file() {
    let case = case("weights_wrong");
    case.reads("model.toy", &["-o", "out.py"]);
    let whole = case.read("out.safetensors");
    let refused = |content: Option<&[u8]>, why: &str| {
        let path = case.path("out.safetensors");
        let _ = std::fs::remove_file(&path);
        content.into_iter().for_each(|content| std::fs::write(&path, content).expect("is written"));
        let said = case.refused(&["run", "out.py", "--passes", ""], 1);
        assert!(said.contains(why) && said.contains("out.py:"), "{why}: {said}");
    };
    refused(None, "weights `out.safetensors`: it cannot be read");
    refused(Some(&whole[..whole.len() - 1]), "but the file has 131071 bytes of data");
    refused(Some(b"PK"), "not a safetensors file");
    let other = String::from_utf8_lossy(&whole[8..200]).replace("\"w0\"", "\"w1\"");
    let other = [&whole[..8], other.as_bytes(), &whole[200..]].concat();
    refused(Some(&other), "weights `out.safetensors`: it does not contain a tensor `w0`");
    std::fs::write(case.path("out.safetensors"), &whole).expect("is written");
    let text = String::from_utf8(case.read("out.py")).expect("a text");
    for (name, why) in [("../out.safetensors", "not in the folder"), ("/etc/passwd", "not in the folder")] {
        std::fs::write(case.path("bad.py"), text.replace("out.safetensors", name)).expect("is written");
        let said = case.refused(&["run", "bad.py", "--passes", ""], 1);
        assert!(said.contains(why) && said.contains(name), "{said}");
    }
    let (_, said, code) = case.run(&["run", "-", "--passes", ""], text.as_bytes());
    assert!(code == 1 && said.contains("needs a path"), "{said}");
}

#[test]
fn weights_beside_a_model_are_in_its_folder() {
    let model = |file: &str| MODEL.replace("w.bin", file);
    let case = case("weights_outside").file("short.bin", [0; 100]);
    std::fs::create_dir(case.path("sub")).expect("a folder");
    std::os::unix::fs::symlink("/etc", case.path("sub/away")).expect("a link");
    let made = Command::new("mkfifo").arg(case.path("fifo")).status().expect("runs");
    assert!(made.success());
    for (file, why) in [
        ("/etc/passwd", "it is not in the folder of the file that names it"),
        ("../w.bin", "it is not in the folder of the file that names it"),
        ("sub/away/passwd", "it is not in the folder of the file that names it"),
        ("absent.bin", "it cannot be read: No such file"),
        ("sub", "it is not a regular file"),
        ("fifo", "it is not a regular file"),
        ("short.bin", "has 100 bytes, expected 131072 from byte 0 on"),
    ] {
        std::fs::write(case.path("bad.toy"), model(file)).expect("is written");
        for isolate in [&[][..], &["--isolate"]] {
            let said = case.refused(&[&["run", "bad.toy", "--passes", ""], isolate].concat(), 1);
            assert!(said.contains(&format!("line 3: `{file}`")) && said.contains(why), "{file}: {said}");
        }
    }
}

/// A model cache contains links with the expected file names. They lead to files with different names in another
/// folder.
#[test]
fn weights_beside_a_model_may_be_in_the_folder_to_which_its_link_leads() {
    let case = case("weights_linked");
    for folder in ["blobs", "other", "snapshots", "snapshots/1"] {
        std::fs::create_dir(case.path(folder)).expect("a folder");
    }
    let link = |to: &str, from: &str| std::os::unix::fs::symlink(to, case.path(from)).expect("a link");
    std::fs::rename(case.path("model.toy"), case.path("blobs/aa")).expect("is moved");
    std::fs::copy(case.path("w.bin"), case.path("other/cc")).expect("is copied");
    std::fs::rename(case.path("w.bin"), case.path("blobs/bb")).expect("is moved");
    link("../../blobs/aa", "snapshots/1/model.toy");
    link("../../blobs/bb", "snapshots/1/w.bin");
    let run = ["run", "snapshots/1/model.toy", "--passes", ""];
    case.fine(&run);
    case.fine(&[&run[..], &["--isolate"]].concat());
    std::fs::remove_file(case.path("snapshots/1/w.bin")).expect("is removed");
    link("../../other/cc", "snapshots/1/w.bin");
    let said = case.refused(&run, 1);
    assert!(said.contains("`w.bin`: it is not in the folder of the file that names it"), "{said}");
}

/// The file is truncated after the reader made constants from it, so that its pages no longer exist when the host
/// reads them.
#[test]
fn a_file_that_becomes_shorter_while_it_is_mapped_is_named() {
    let case = case("weights_shorter");
    let args = ["run", "model.toy", "--from", "toy{shortens=w.bin}", "--passes", "", "-o", "out.py"];
    let said = case.refused(&args, 1);
    let expected = "error: input $CASE/w.bin: became shorter while it was mapped, or could not be read";
    assert!(said.contains(expected) && said.contains("leave the file alone"), "{said}");
    assert!(!case.path("out.py").exists() && !case.path("out.safetensors").exists());
    let left = std::fs::read_dir(case.folder.path()).expect("a folder").flatten();
    let left: Vec<_> = left.filter(|file| file.file_name().to_string_lossy().starts_with(".passhost")).collect();
    assert!(left.is_empty(), "no temporary file is left: {left:?}");
    // The same happens without a supervising process, and while the text is printed.
    let case = case.file("w.bin", floats(LENGTH / 4));
    let mut command = case.command(&args);
    command.env("PASSHOST_ONE_PROCESS", "1");
    let (_, said, code) = case.finish(command, b"");
    assert!(code == 1 && said.contains(expected), "{code}: {said}");
    let case = case.file("w.bin", floats(LENGTH / 4));
    let said = case.refused(&args[..6], 1);
    assert!(said.contains(expected), "{said}");
    let case = case.file("w.bin", floats(LENGTH / 4));
    let said = case.refused(&[&args[..], &["--message-format", "json"]].concat(), 1);
    assert!(said.lines().all(|line| line.starts_with('{')) && said.contains("became shorter"), "{said}");
}

/// A process that may use 400 MB of its own memory reads and writes a model of 2 GiB.
#[test]
fn a_model_larger_than_memory_is_read_and_written() {
    let case = case("weights_large").file(
        "large.toy",
        "toy 1\ninput x 16384 16384\nweights a l.bin 0 16384 16384\nweights b l.bin 1073741824 16384 16384\nadd y x a\nadd z y b\noutput z\n",
    );
    let file = std::fs::File::create(case.path("l.bin")).expect("a file");
    file.set_len(2 << 30).expect("grows");
    std::os::unix::fs::FileExt::write_all_at(&file, b"data", (1 << 30) + 5000).expect("is written");
    let run = |file: &str, output: &str| {
        let program = env!("CARGO_BIN_EXE_passhost");
        let passes = "DeadCodeElimination,EliminateCommonSubexpr,FuseOps";
        let line = format!("ulimit -d 400000 && exec {program} run {file} --jobs 2 --passes {passes} -o {output}");
        let mut command = Command::new("sh");
        command.args(["-c", &line]).current_dir(case.folder.path()).env("XDG_CACHE_HOME", case.path("cache"));
        let (_, said, code) = case.finish(command, b"");
        assert_eq!(code, 0, "{said}");
    };
    run("large.toy", "out.py");
    let written = std::fs::metadata(case.path("out.safetensors")).expect("a file");
    assert!(written.len() > 2 << 30);
    assert!(std::os::unix::fs::MetadataExt::blocks(&written) * 512 < 1 << 20, "holes stay holes");
    run("out.py", "again.py");
    let text = |name: &str| String::from_utf8(case.read(name)).expect("a text");
    assert_eq!(text("out.py").replace("out.safetensors", ""), text("again.py").replace("again.safetensors", ""));
}

const WITH_PARAMS: &str = "\
# from tvm.script import ir as I
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, \"n\"), dtype=\"float32\"), block_0_w: R.Tensor((\"n\", 3), dtype=\"float32\"), b: R.Tensor((3,), dtype=\"float32\")):
        with R.dataflow():
            y = R.matmul(x, block_0_w)
            gv = R.add(y, b)
            R.output(gv)
        return gv
";

fn safetensors(tensors: &[(&str, &str, &[usize])]) -> Vec<u8> {
    let (mut header, mut start) = (Vec::new(), 0);
    for (name, dtype, shape) in tensors {
        let end = start + shape.iter().product::<usize>() * 4;
        header
            .push(format!("\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{start},{end}]}}"));
        start = end;
    }
    let header = format!("{{{}}}", header.join(","));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &floats(start / 4)].concat()
}

#[test]
fn parameters_become_tensors_of_a_file() {
    let case = case("weights_params").file("model.py", WITH_PARAMS);
    let given = safetensors(&[("block.0.w", "F32", &[4, 3]), ("b", "F32", &[3])]);
    let case = case.file("p.safetensors", given);
    let text = case.reads("model.py", &["--params", "p.safetensors"]);
    assert!(text.contains("def main(x: R.Tensor((2, 4), dtype=\"float32\")) -> R.Tensor((2, 3)"), "{text}");
    let exec = |more: &[&str]| case.fine(&[&["exec", "model.py", "--random", "1", "--json"][..], more].concat());
    assert!(exec(&["--params", "p.safetensors"]).contains("[2,3]"));
    case.fine(&["validate", "model.py", "--params", "p.safetensors", "--passes", "LegalizeOps"]);
    for (tensors, why) in [
        (safetensors(&[("w", "F32", &[4, 3])]), "no parameter is called `w`"),
        (
            safetensors(&[("block_0_w", "I32", &[4, 3])]),
            "tensor `block_0_w`: its data type is int32, but its parameter has float32",
        ),
        (safetensors(&[("b", "F32", &[3, 1])]), "it has 2 dimensions, but its parameter has 1"),
        (safetensors(&[("b", "F32", &[4])]), "dimension 0 is 4, but 3 in its parameter"),
        (
            safetensors(&[("block.0.w", "F32", &[4, 3]), ("block_0_w", "F32", &[4, 3])]),
            "are both for parameter `block_0_w`",
        ),
        (b"no file of tensors".to_vec(), "not a safetensors file"),
    ] {
        std::fs::write(case.path("bad.safetensors"), tensors).expect("is written");
        let said = case.refused(&["run", "model.py", "--passes", "", "--params", "bad.safetensors"], 2);
        assert!(said.contains("--params bad.safetensors: ") && said.contains(why), "{why}: {said}");
    }
    let said = case.refused(&["run", "model.py", "--passes", "", "--params", "absent.safetensors"], 2);
    assert!(said.contains("--params absent.safetensors: No such file"), "{said}");
    let said =
        case.refused(&["run", "model.py", "--passes", "", "--params", "p.safetensors", "-o", "p.safetensors"], 2);
    assert!(said.contains("which would be overwritten") || said.contains("would be written to a file named"), "{said}");
}
