//! Dead properties as extended attributes.
//!
//! The property `colour` in the namespace `http://example.org/` is the attribute `user.dav.{http://example.org/}colour`. Its
//! value is the property's text. The server's own properties cannot be set: those of `DAV:`, and the live ones of Apache,
//! ownCloud and Nextcloud.
//!
//! Programs ask for the names of all attributes more often than anybody sets one: newer versions of ls(1) do so for each
//! file. So names are listed only if the user wants that ([`Options::properties`](crate::Options)); by its name each can
//! be read and changed always.

use std::sync::Arc;

use dav::QName;
use nix::errno::Errno;

use super::{ETAG_ATTRIBUTE, Result, Share};
use crate::{errno, tree::Ino};

const PREFIX: &str = "user.dav.{";
/// The longest value, as the kernel has it (`XATTR_SIZE_MAX`).
const LONGEST: usize = 65536;
/// The longest list of names (`XATTR_LIST_MAX`).
const LONGEST_LIST: usize = 65536;

/// The property of an attribute; none if it is another kind of attribute.
fn property(attribute: &[u8]) -> Option<QName> {
    let text = str::from_utf8(attribute).ok()?.strip_prefix(PREFIX)?;
    let (namespace, local) = text.rsplit_once('}')?;
    QName::of_property(namespace, local)
}

/// Whether an attribute is in the only namespace that there is here. ls(1), which looks for capabilities and ACLs, asks no
/// further file once it was told that there are no others.
fn is_user(attribute: &[u8]) -> bool {
    attribute.starts_with(b"user.")
}

fn attribute(name: &QName) -> String {
    format!("{PREFIX}{}}}{}", name.namespace, name.local)
}

/// Whether XML can hold it (XML 1.0 §2.2).
fn is_text(value: &str) -> bool {
    !value.chars().any(|char| (char < ' ' && !"\t\n\r".contains(char)) || matches!(char, '\u{fffe}' | '\u{ffff}'))
}

/// How an attribute is set (setxattr(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Set,
    /// It must not exist.
    Create,
    /// It must exist.
    Replace,
}

impl Share {
    /// The value of an extended attribute.
    pub(crate) async fn attribute(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        if let Some(value) = self.attribute_value(ino, name) {
            return Ok(value.into_bytes());
        }
        let property = property(name).ok_or_else(|| if is_user(name) { Errno::ENODATA } else { Errno::ENOTSUP })?;
        let found = self.properties(ino).await?.into_iter().find(|(found, _)| *found == property);
        let (_, value) = found.ok_or(Errno::ENODATA)?;
        if value.len() > LONGEST { Err(Errno::E2BIG) } else { Ok(value.into_bytes()) }
    }

    /// The names of all extended attributes, each with a zero byte behind it.
    pub(crate) async fn attributes_list(&self, ino: Ino) -> Result<Vec<u8>> {
        let etag = self.attribute_value(ino, ETAG_ATTRIBUTE.as_bytes()).map(|_| ETAG_ATTRIBUTE.to_owned());
        let properties = if self.options.properties { self.properties(ino).await? } else { Vec::new() };
        // The kernel has no room for longer names, and programs none for names with a zero.
        let is_name = |name: &String| name.len() <= super::MAX_NAME && property(name.as_bytes()).is_some();
        let names = properties.iter().map(|(name, _)| attribute(name)).filter(is_name);
        let list: String = etag.into_iter().chain(names).map(|name| name + "\0").collect();
        if list.len() > LONGEST_LIST { Err(Errno::E2BIG) } else { Ok(list.into_bytes()) }
    }

    /// Sets an attribute.
    pub(crate) async fn set_attribute(
        self: &Arc<Self>,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        change: Change,
    ) -> Result<()> {
        let name = changeable(name)?;
        let value = str::from_utf8(value).ok().filter(|value| is_text(value)).ok_or(Errno::EINVAL)?;
        if change != Change::Set {
            let is_there = self.properties(ino).await?.iter().any(|(found, _)| *found == name);
            match (change, is_there) {
                (Change::Create, true) => return Err(Errno::EEXIST),
                (Change::Replace, false) => return Err(Errno::ENODATA),
                _ => {}
            }
        }
        self.change_property(ino, &name, Some(value)).await
    }

    /// Removes an attribute.
    pub(crate) async fn remove_attribute(self: &Arc<Self>, ino: Ino, name: &[u8]) -> Result<()> {
        let name = changeable(name)?;
        if !self.properties(ino).await?.iter().any(|(found, _)| *found == name) {
            return Err(Errno::ENODATA);
        }
        self.change_property(ino, &name, None).await
    }

    async fn change_property(self: &Arc<Self>, ino: Ino, name: &QName, text: Option<&str>) -> Result<()> {
        // The server must have the file.
        let file = self.contents().files.get(&ino).cloned();
        if let Some(file) = file {
            self.flush(ino, &file).await?;
        }
        let path = self.path_if_known(ino).ok_or(Errno::ENOENT)?;
        let claims = self.locks.claims(&[&path]);
        self.dav.set_property(&path, name, text, &claims).await.map_err(|error| {
            // Such servers store no properties.
            if error.is(405) || error.is(501) { Errno::ENOTSUP } else { errno::of(&path, "set a property of", &error) }
        })
    }

    async fn properties(&self, ino: Ino) -> Result<Vec<(QName, String)>> {
        let Some(path) = self.path_if_known(ino) else { return Ok(Vec::new()) };
        let found = self.dav.dead_properties(&path).await;
        // The server does not have what was just created.
        found.map(Option::unwrap_or_default).map_err(|error| errno::of(&path, "read the properties of", &error))
    }
}

fn changeable(attribute: &[u8]) -> Result<QName> {
    if attribute == ETAG_ATTRIBUTE.as_bytes() {
        return Err(Errno::EPERM);
    }
    let name = property(attribute).ok_or(Errno::ENOTSUP)?;
    if name.is_of_server() { Err(Errno::EPERM) } else { Ok(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_name_properties() {
        let name = property(b"user.dav.{http://example.org/{a}}colour").unwrap();
        assert_eq!((&*name.namespace, &*name.local), ("http://example.org/{a}", "colour"));
        assert_eq!(attribute(&name), "user.dav.{http://example.org/{a}}colour");
        assert_eq!(attribute(&property(b"user.dav.{}x").unwrap()), "user.dav.{}x");
        for other in ["user.dav.etag", "user.dav.{a}", "user.dav.{a}b c", "user.dav.{a}b>", "user.dav.{a}1", "user.x"] {
            assert_eq!(property(other.as_bytes()), None, "{other}");
        }
        assert_eq!(changeable(b"user.dav.{dav:}getetag"), Err(Errno::EPERM));
        assert_eq!(changeable(b"user.dav.etag"), Err(Errno::EPERM));
        assert_eq!(changeable(b"security.selinux"), Err(Errno::ENOTSUP));
        assert!(is_text("a\tb\n") && !is_text("\0") && !is_text("\x1b"));
    }
}
