//! Nearest names for misspelt ones, so that a message can name what was probably meant.

/// Longer than any name that somebody could have misspelt, in bytes.
const LONGEST: usize = 200;

/// Up to three of `known` that are close to `name`, nearest first. A name in another namespace counts as close.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    // To compare costs the product of both lengths.
    if name.len() > LONGEST {
        return Vec::new();
    }
    let known = known.into_iter().filter(|candidate| candidate.len() <= LONGEST);
    let short = short_name(name).to_lowercase();
    let score = |candidate: &str| {
        let whole = strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase());
        whole.max(strsim::normalized_damerau_levenshtein(&short, &short_name(candidate).to_lowercase()))
    };
    let mut scored: Vec<(f64, &str)> = known.map(|candidate| (score(candidate), candidate)).collect();
    scored.retain(|(score, _)| *score >= 0.6);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(3).map(|(_, name)| name.to_string()).collect()
}

/// `; did you mean …?`, or nothing.
pub fn did_you_mean(near: &[String]) -> String {
    let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        [most @ .., last] => format!("; did you mean {} or {last}?", most.join(", ")),
    }
}

/// The part after the last dot.
pub fn short_name(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_probably_meant_is_named() {
        let known = ["relax.add", "relax.nn.relu", "relax.nn.gelu", "relax.nn.selu"];
        assert_eq!(did_you_mean(&nearest("relax.ad", known)), "; did you mean `relax.add`?");
        assert_eq!(nearest("relu", known)[0], "relax.nn.relu");
        let three = did_you_mean(&nearest("relax.nn.relv", known));
        assert_eq!(three, "; did you mean `relax.nn.relu`, `relax.nn.gelu` or `relax.nn.selu`?");
        let long = "z".repeat(LONGEST);
        assert_eq!(nearest(&long, [long.as_str()]), [long.clone()]);
        assert!(nearest(&format!("{long}z"), [long.as_str()]).is_empty());
        assert!(nearest(&"z".repeat(10_000_000), ["z".repeat(10_000_000).as_str()]).is_empty());
        assert_eq!(did_you_mean(&nearest("something.else_entirely", known)), "");
    }
}
