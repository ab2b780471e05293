//! Which version of the plugin API a host takes.
//!
//! `docs/decisions/0012-plugin-api-1.0.md` says what a version fixes; the tests here check it.

use crate::abi::layout::FINGERPRINTS;
use crate::declare::declarations::API_VERSION;
use semver::Version;

/// Why a host cannot take a plugin of another version of the API, and which of the two to upgrade.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiMismatch {
    /// The plugin needs more than this host has.
    #[error("was built against plugin API {found}, but this host has {API_VERSION}")]
    NewerPlugin {
        /// Version of the plugin's API.
        found: Version,
    },
    /// The host no longer has what the plugin needs.
    #[error("was built against plugin API {found}, but this host has {API_VERSION}")]
    OlderPlugin {
        /// Version of the plugin's API.
        found: Version,
    },
}

impl ApiMismatch {
    /// What to do.
    pub fn help(&self) -> &'static str {
        match self {
            ApiMismatch::NewerPlugin { .. } => "upgrade passhost, or use an older build of the plugin",
            ApiMismatch::OlderPlugin { .. } => "upgrade the plugin: rebuild it against the plugin API of this host",
        }
    }
}

/// The fingerprint that a plugin of that version of the API has, if this host can load it: it loads every version of its
/// own major version up to its own. The patch number has no meaning.
///
/// # Errors
/// Which side is too old.
pub fn fingerprint(api: &Version) -> Result<u64, ApiMismatch> {
    let own = Version::parse(API_VERSION).map_or(0, |own| own.major);
    if api.major < own {
        return Err(ApiMismatch::OlderPlugin { found: api.clone() });
    }
    let of_minor =
        usize::try_from(api.minor).ok().and_then(|minor| FINGERPRINTS.get(minor)).filter(|_| api.major == own);
    of_minor.copied().ok_or_else(|| ApiMismatch::NewerPlugin { found: api.clone() })
}

#[cfg(test)]
mod tests;
