//! Key syntax, which a store checks before any I/O.
//!
//! By default a key is a path: one or more segments joined by "/". No segment is empty, "." or
//! "..", contains NUL, or ends in [`LOCK_SUFFIX`] (except in [`STAGE_SUFFIX`]). So a key joined to
//! the root of a folder names a file below this folder. A backslash is an ordinary character.

use crate::error::{Error, Kind, Result};

/// The suffix of lock files in local stores (TensorStore's protocol). Every store reserves it, so
/// that data can move between stores.
pub const LOCK_SUFFIX: &str = ".__lock";

/// The suffix of the folder in which the replacement of a node is built: hidden like a lock file,
/// but with keys below it.
const STAGE_SUFFIX: &str = ".__new.__lock";

/// The syntax of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeySyntax {
    /// Texts that can be the path of a file.
    #[default]
    Paths,
    /// All texts, including the empty one.
    Texts,
}

impl KeySyntax {
    /// Reject an invalid key (`Kind::Argument`).
    pub fn check(self, key: &str) -> Result<()> {
        match self.invalid_reason(key) {
            None => Ok(()),
            Some(reason) => {
                Err(Error::new(Kind::Argument, format!("{key:?} is not a key: {reason}")).at_key(key))
            }
        }
    }

    /// Reject a prefix that is neither "" nor a key followed by "/" (`Kind::Argument`).
    pub fn check_prefix(self, prefix: &str) -> Result<()> {
        let reason = match prefix.strip_suffix('/') {
            None if prefix.is_empty() => None,
            None => Some("it does not end in \"/\""),
            Some(folder) => self.invalid_reason(folder),
        };
        match reason {
            None => Ok(()),
            Some(reason) => {
                Err(Error::new(Kind::Argument, format!("{prefix:?} is not a prefix of keys: {reason}")))
            }
        }
    }

    /// Return whether `key` is valid.
    pub fn is_valid(self, key: &str) -> bool {
        self.invalid_reason(key).is_none()
    }

    fn invalid_reason(self, key: &str) -> Option<&'static str> {
        match self {
            KeySyntax::Paths => invalid_path_reason(key),
            KeySyntax::Texts => None,
        }
    }
}

fn invalid_path_reason(key: &str) -> Option<&'static str> {
    if key.is_empty() {
        return Some("it is empty");
    }
    if key.starts_with('/') {
        return Some("it starts with \"/\"");
    }
    if key.as_bytes().contains(&0) {
        return Some("it contains NUL");
    }
    key.split('/').find_map(|segment| match segment {
        "" => Some("it has an empty segment"),
        "." | ".." => Some("it has a segment \".\" or \"..\""),
        _ if segment.ends_with(LOCK_SUFFIX) && !segment.ends_with(STAGE_SUFFIX) => {
            Some("names ending in \".__lock\" are reserved")
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_keys_are_accepted() {
        for key in ["a", "zarr.json", "a/b/c", "c/0/0", ".zarray", "...", "a\\b", "a b", "é", "x__lock", "-"]
            .into_iter()
            .chain(["a.__new.__lock/node/c/0"])
        {
            assert!(KeySyntax::Paths.check(key).is_ok(), "{key:?}");
            assert!(KeySyntax::Paths.check_prefix(&format!("{key}/")).is_ok(), "{key:?}");
        }
        assert!(KeySyntax::Paths.check_prefix("").is_ok());
    }

    #[test]
    fn unsafe_keys_are_rejected() {
        for key in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            ".",
            "..",
            "../a",
            "a/..",
            "a/../b",
            "a/./b",
            "a\0b",
            "a.__lock",
            "a.__lock/b",
        ] {
            let error = KeySyntax::Paths.check(key).err().map(|error| error.kind);
            assert_eq!(error, Some(Kind::Argument), "{key:?}");
            assert!(KeySyntax::Paths.check_prefix(&format!("{key}/")).is_err(), "{key:?}");
        }
        assert!(KeySyntax::Paths.check_prefix("a").is_err());
    }

    #[test]
    fn any_text_is_a_key_with_free_syntax() {
        for key in ["", "/", "a//b", "..", "a/./b", "a\0b", "a.__lock"] {
            assert!(KeySyntax::Texts.check(key).is_ok(), "{key:?}");
            assert!(KeySyntax::Texts.check_prefix(&format!("{key}/")).is_ok(), "{key:?}");
        }
        assert!(KeySyntax::Texts.check_prefix("a").is_err());
    }
}
