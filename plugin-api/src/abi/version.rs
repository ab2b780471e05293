//! The versions of the plugin API that a host accepts.
//!
//! `docs/decisions/0012-plugin-api-1.0.md` defines the guarantees of a version; the tests here check them.

use crate::abi::layout::FINGERPRINTS;
use crate::declare::declarations::API_VERSION;
use semver::Version;

/// The reason why a host cannot load a plugin with a different API version, and which of the two to upgrade.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiMismatch {
    /// The plugin requires a newer API than this host provides.
    #[error("was built against plugin API {found}, but this host has {API_VERSION}")]
    NewerPlugin {
        /// Version of the plugin's API.
        found: Version,
    },
    /// The host no longer supports the API of the plugin.
    #[error("was built against plugin API {found}, but this host has {API_VERSION}")]
    OlderPlugin {
        /// Version of the plugin's API.
        found: Version,
    },
}

impl ApiMismatch {
    /// Returns advice for the user.
    pub fn help(&self) -> &'static str {
        match self {
            ApiMismatch::NewerPlugin { .. } => "upgrade passhost, or use an older build of the plugin",
            ApiMismatch::OlderPlugin { .. } => "upgrade the plugin: rebuild it against the plugin API of this host",
        }
    }
}

/// Returns the fingerprint of plugins of an API version, if this host can load them. A host loads all versions with
/// its major version up to its own version; the patch number is ignored.
///
/// # Errors
/// The side that is too old.
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
