//! Parses the examples in the documentation of operators.

use plugin_api::metadata::{doc_lines, summary};
use plugin_api::typing::operators::OpDecl;

/// The example of an operator: parameters, call and type.
pub(crate) struct Example {
    pub(crate) params: String,
    pub(crate) call: String,
    pub(crate) ty: String,
}

/// Returns the example of an operator, or an error that names the missing part of its documentation.
pub(crate) fn example(decl: &OpDecl) -> Result<Example, String> {
    if !summary(decl.doc).ends_with('.') {
        return Err("begins with no sentence".to_string());
    }
    if !doc_lines(decl.doc).any(|line| line.starts_with("Type: ") && line.ends_with('.')) {
        return Err("lacks a rule for the type: `Type: the type of the tensor.`".to_string());
    }
    let code: Vec<String> =
        doc_lines(decl.doc).filter_map(|line| Some(line.strip_prefix("    ")?.to_string())).collect();
    let (params, call, ty) = match code.as_slice() {
        [params, call, ty] => (params.clone(), call, ty),
        [call, ty] => (String::new(), call, ty),
        _ => return Err("lacks an example: parameters, a call, and its type after `# `".to_string()),
    };
    if !call.starts_with(&format!("{}(", decl.name.replacen("relax", "R", 1))) {
        return Err(format!("its example does not call it: {call}"));
    }
    let ty = ty.strip_prefix("# ").ok_or("its example does not give the type after `# `")?.to_string();
    Ok(Example { params, call: call.clone(), ty })
}
