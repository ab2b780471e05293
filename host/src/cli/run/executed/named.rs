//! Finds the function with the variable that the user named.

use crate::report::error::Error;
use passhost_lang::ir::{Body, Value};
use passhost_lang::names::{did_you_mean, listed, nearest};

/// A variable that the user named.
pub(in crate::cli::run) struct Named<'a> {
    pub(in crate::cli::run) variable: &'a str,
    pub(in crate::cli::run) function: Option<&'a str>,
    /// The module with the variable, in words such as `before acme.Fuse`.
    pub(in crate::cli::run) when: &'a str,
}

/// Returns the names of the variables of a function.
pub(in crate::cli::run) fn variables(body: &Body) -> Vec<&str> {
    body.values().filter(|value| value.is_bound()).filter_map(Value::name).collect()
}

/// Returns the function that has the variable, if exactly one of the functions does.
///
/// # Errors
/// If no function has the variable, or several do. `elsewhere` returns the help text if no function
/// has it.
pub(in crate::cli::run) fn function_with<'m>(
    named: &Named<'_>,
    all: &[(&'m str, &'m Body)],
    elsewhere: impl FnOnce() -> String,
) -> Result<(&'m str, &'m Body), Error> {
    let Named { variable, function, when } = *named;
    if let Some(name) = function.filter(|wanted| all.iter().all(|(name, _)| name != wanted)) {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        let near = did_you_mean(&nearest(name, names.iter().copied()));
        let help = format!("functions: {}", listed(&names));
        return Err(Error::Request {
            message: format!("the module does not contain a function `{name}` {when}{near}"),
            help,
        });
    }
    let among = || all.iter().filter(|(name, _)| function.is_none_or(|wanted| wanted == *name));
    let with: Vec<_> = among().filter(|(_, body)| variables(body).contains(&variable)).collect();
    match with.as_slice() {
        [found] => Ok(**found),
        [] => {
            let near = did_you_mean(&nearest(variable, among().flat_map(|(_, body)| variables(body))));
            let place = function.map_or_else(|| "the module".to_string(), |name| format!("function `{name}`"));
            let message = format!("unknown variable `{variable}` in {place} {when}{near}");
            Err(Error::Request { message, help: elsewhere() })
        }
        several => {
            let names: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
            let message = format!("several functions contain the variable `{variable}`: {}", listed(&names));
            Err(Error::Request { message, help: "select one of them with --function NAME".to_string() })
        }
    }
}
