//! Passes with false contracts, and a pass that changes the working folder.
#![forbid(unsafe_code)]

use plugin_api::ir::records::kind;
use plugin_api::prelude::*;

export_plugin! {
    passes: [CLAIMS, CLAIMS_AND_KEEPS, MERGES, NEEDS, LOSES, LEAVES, MISSPELT],
    properties: [PLAIN],
}

declare_property! {
    /// The module contains no dataflow block.
    pub PLAIN = "claims.plain" { check: plain }
}

fn plain(body: &Body, _: &Ctx) -> Result<(), PassError> {
    match body.values().find(|value| value.kind() == kind::DATAFLOW) {
        Some(block) => Err(pass_error!("this is a dataflow block").at(block)),
        None => Ok(()),
    }
}

fn nothing(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

/// Replaces the second binding by the first.
fn merge(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut bindings = body.bindings();
    let (Some(first), Some(second)) = (bindings.next(), bindings.next()) else { return Ok(body.clone()) };
    let mut edit = body.edit();
    let with = edit.v(first);
    edit.forward_to(second, with);
    Ok(edit.finish()?)
}

declare_pass! {
    /// Claims to establish a property, but does nothing.
    pub function pass CLAIMS = "claims.Claims" { opt_level: 0, establishes: ["claims.plain"], run: nothing }
}

declare_pass! {
    /// Claims to establish the same property.
    pub function pass CLAIMS_AND_KEEPS = "claims.ClaimsAgain" {
        opt_level: 0,
        establishes: ["claims.plain"],
        preserves: ["all"],
        run: nothing,
    }
}

declare_pass! {
    /// Changes the module, and claims to keep all properties.
    pub function pass MERGES = "claims.Merges" { opt_level: 0, preserves: ["all"], run: merge }
}

declare_pass! {
    /// Changes the module, and does not claim to keep any property.
    pub function pass LOSES = "claims.Loses" { opt_level: 0, run: merge }
}

declare_pass! {
    /// Relies on the claim.
    pub function pass NEEDS = "claims.Needs" { opt_level: 0, requires: ["claims.plain"], run: nothing }
}

declare_pass! {
    /// Changes the current folder.
    pub module pass LEAVES = "claims.Leaves" { opt_level: 0, run: leaves }
}

fn leaves(module: &Module, _: &Ctx) -> Result<Module, PassError> {
    std::env::set_current_dir("/").map_err(|error| pass_error!("{error}"))?;
    Ok(module.clone())
}

declare_pass! {
    /// Names passes and properties that do not exist.
    pub function pass MISSPELT = "claims.Misspelt" {
        opt_level: 0,
        establishes: ["claims.plane", "elsewhere.unknown"],
        preserves: ["claims.Claim", "claims.plain"],
        invalidates: ["claims.Merge"],
        requires: ["claims.plian"],
        run: nothing,
    }
}
