//! Recognizes models in formats other than TVMScript, and advises how to convert them if no plugin reads the format.

/// The recognized format of an input, with advice for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Foreign {
    /// The format, with its article: `an ONNX model`.
    pub(super) what: &'static str,
    /// The usual name of a reader for this format.
    pub(super) format: Option<&'static str>,
    pub(super) help: &'static str,
}

const ONNX: Foreign = Foreign {
    what: "an ONNX model",
    format: Some("onnx"),
    help: "add a plugin that reads it to passes.toml, such as the crate `plugins/onnx` of passhost",
};
const TORCH: Foreign = Foreign {
    what: "a PyTorch model or another zip archive",
    format: Some("pt2"),
    help: "export it in Python, by `torch.export.save(torch.export.export(model, inputs), \"model.pt2\")`, and add a plugin that \
           reads it to passes.toml, such as the crate `plugins/pt2` of passhost",
};
const TFLITE: Foreign = Foreign {
    what: "a TensorFlow Lite model",
    format: Some("tflite"),
    help: "convert it in Python with `tvm.relax.frontend.tflite.from_tflite`, then write `mod.script(show_meta=True)` to a \
           file",
};
const LIBRARY: Foreign = Foreign {
    what: "a compiled library or program",
    format: None,
    help: "give the module as TVMScript, which `mod.script(show_meta=True)` returns before the build; list plugins in passes.toml",
};
const RELAY: Foreign = Foreign {
    what: "Relay text",
    format: Some("relay"),
    help: "Relax has replaced Relay in TVM: import the original model with a frontend of `tvm.relax.frontend`, then write \
           `mod.script(show_meta=True)` to a file",
};
const MLIR: Foreign = Foreign {
    what: "MLIR text",
    format: Some("mlir"),
    help: "passhost reads TVMScript: import the original model, or its ONNX form, with a frontend of `tvm.relax.frontend`, \
           then write `mod.script(show_meta=True)` to a file",
};
const LLVM: Foreign = Foreign {
    what: "LLVM IR",
    format: None,
    help: "give the module as TVMScript, which `mod.script(show_meta=True)` returns before the build",
};
const JSON: Foreign = Foreign {
    what: "JSON",
    format: None,
    help: "if TVM saved it: load it in Python with `mod = tvm.ir.load_json(text)`, then write `mod.script(show_meta=True)` \
           to a file",
};

/// Recognizes the format of bytes by their beginning.
pub(super) fn of_bytes(bytes: &[u8]) -> Option<Foreign> {
    const LIBRARIES: [&[u8]; 4] = [b"\x7fELF", b"\xcf\xfa\xed\xfe", b"MZ", b"\xca\xfe\xba\xbe"];
    if bytes.starts_with(b"PK\x03\x04") {
        Some(TORCH)
    } else if bytes.get(4..8) == Some(b"TFL3") {
        Some(TFLITE)
    } else if LIBRARIES.iter().any(|start| bytes.starts_with(start)) {
        Some(LIBRARY)
    } else {
        is_onnx(bytes).then_some(ONNX)
    }
}

/// Returns true for a protobuf message that begins with a small `ir_version`, followed by another field of a model.
fn is_onnx(bytes: &[u8]) -> bool {
    // Field keys (number and wire type): length-delimited for `producer_name`, `producer_version`, `domain`,
    // `doc_string`, `graph`, `opset_import` and `metadata_props`, and varint for `model_version`.
    const NEXT: [u8; 8] = [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72];
    matches!(bytes, [0x08, 1..=100, next, ..] if NEXT.contains(next))
}

/// Recognizes the format of a text by its first nonblank line.
pub(super) fn of_text(text: &str) -> Option<Foreign> {
    let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?;
    let next = lines.find(|line| !line.starts_with("//") && !line.starts_with('#')).unwrap_or(first);
    let either = |starts: &[&str]| starts.iter().any(|start| first.starts_with(start) || next.starts_with(start));
    if first.starts_with("#[version") || either(&["def @", "fn (%", "fn(%", "free_var %"]) {
        Some(RELAY)
    } else if either(&[
        "module {",
        "module @",
        "module attributes",
        "builtin.module",
        "func.func ",
        "#map",
        "#loc",
        "!",
    ]) || first.starts_with("// -----")
    {
        Some(MLIR)
    } else if either(&["; ModuleID", "source_filename =", "target datalayout", "define "]) {
        Some(LLVM)
    } else {
        first.starts_with('{').then_some(JSON)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_in_other_forms_are_recognized() {
        let bytes: [(&[u8], Foreign); 5] = [
            (b"\x08\x08\x12\x07pytorch\x1a\x031.9", ONNX),
            (b"\x08\x0a:\x10\x0a\x02", ONNX),
            (b"PK\x03\x04rest", TORCH),
            (b"\x1c\0\0\0TFL3\0", TFLITE),
            (b"\x7fELF\x02", LIBRARY),
        ];
        for (bytes, form) in bytes {
            assert_eq!(of_bytes(bytes), Some(form));
        }
        for (text, form) in [
            ("#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(1), float32]) {\n", RELAY),
            ("\n\ndef @main(%x) {\n", RELAY),
            ("fn (%x: Tensor[(1), float32]) {\n", RELAY),
            ("#map = affine_map<(d0) -> (d0)>\nmodule {\n", MLIR),
            ("// made by hand\nmodule attributes {} {\n", MLIR),
            ("func.func @main() {\n", MLIR),
            ("; ModuleID = 'x'\n", LLVM),
            ("{\n  \"root\": 1\n", JSON),
        ] {
            assert_eq!(of_text(text), Some(form), "{text}");
        }
        for text in
            ["", "# from tvm.script import ir as I\n", "@I.ir_module\nclass Module:\n", "def main():\n    pass\n"]
        {
            assert_eq!((of_bytes(text.as_bytes()), of_text(text)), (None, None), "{text}");
        }
    }
}
