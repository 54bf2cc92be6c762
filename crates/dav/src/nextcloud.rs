//! Paths on a Nextcloud that are not files.
//!
//! Files lie below `/remote.php/dav/files/USER/`. Beside it are the folder for chunked uploads, the endpoint for bulk uploads
//! and the capabilities document. USER is the account's name, which may differ from the login name, so it is taken from the
//! path that the user of this program has given.

use haul_http::Origin;

use crate::path::{PathError, RemotePath};

/// The segment that every path of a Nextcloud or ownCloud contains.
const ENTRANCE: &[u8] = b"remote.php";

/// The files of one user on a Nextcloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nextcloud {
    /// `…/remote.php/dav/`.
    dav: RemotePath,
    user: Vec<u8>,
    files: RemotePath,
}

impl Nextcloud {
    /// The user's files that contain `path`, if it looks like a path on a Nextcloud.
    pub(crate) fn of(path: &RemotePath) -> Option<Self> {
        let segments: Vec<&[u8]> = path.segments().collect();
        let at = segments.iter().position(|segment| *segment == ENTRANCE)?;
        let [b"dav", b"files", user, ..] = segments[at + 1..] else { return None };
        let dav = folder(&segments[..at + 2]).ok()?;
        let files = folder(&segments[..at + 4]).ok()?;
        Some(Self { dav, user: user.to_vec(), files })
    }

    /// The folder for the chunks of one upload.
    pub(crate) fn upload(&self, name: &str) -> Result<RemotePath, PathError> {
        self.dav.join(b"uploads", true)?.join(&self.user, true)?.join(name.as_bytes(), true)
    }

    /// The endpoint for bulk uploads.
    pub(crate) fn bulk(&self) -> Result<RemotePath, PathError> {
        self.dav.join(b"bulk", false)
    }

    /// A file's path relative to the user's files, for a header; none if trimming or JSON would change it.
    pub(crate) fn own_path(&self, path: &RemotePath) -> Option<String> {
        let own: Vec<u8> = path.relative_to(&self.files)?.flat_map(|name| [b"/", name].concat()).collect();
        let own = String::from_utf8(own).ok()?;
        (!own.is_empty() && !own.contains(char::is_control) && own.trim() == own).then_some(own)
    }
}

/// The URL of the capabilities document of a Nextcloud or ownCloud, if the path is on one.
pub(crate) fn capabilities_url(origin: &Origin, path: &RemotePath) -> Option<String> {
    let segments: Vec<&[u8]> = path.segments().collect();
    let at = segments.iter().position(|segment| *segment == ENTRANCE)?;
    let root = folder(&segments[..at]).ok()?;
    Some(format!("{origin}{}ocs/v2.php/cloud/capabilities?format=json", root.target()))
}

fn folder(segments: &[&[u8]]) -> Result<RemotePath, PathError> {
    segments.iter().try_fold(RemotePath::root(), |folder, segment| folder.join(segment, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RemotePath {
        RemotePath::from_url_path(text).unwrap()
    }

    #[test]
    fn user_name_is_taken_from_the_path() {
        let file = path("/cloud/remote.php/dav/files/ann%20b/a/%C3%BC.txt");
        let nextcloud = Nextcloud::of(&file).unwrap();
        assert_eq!(nextcloud.upload("x-1").unwrap().target(), "/cloud/remote.php/dav/uploads/ann%20b/x-1/");
        assert_eq!(nextcloud.bulk().unwrap().target(), "/cloud/remote.php/dav/bulk");
        assert_eq!(nextcloud.own_path(&file).unwrap(), "/a/ü.txt");
        for odd in ["a%0Ab", "a%20", "%FF"] {
            assert_eq!(nextcloud.own_path(&path(&format!("/cloud/remote.php/dav/files/ann%20b/{odd}"))), None, "{odd}");
        }
        for other in
            ["/", "/dav/files/ann/", "/remote.php/webdav/a", "/remote.php/dav/files", "/remote.php/dav/calendars/a"]
        {
            assert_eq!(Nextcloud::of(&path(other)), None, "{other}");
        }
    }

    #[test]
    fn capabilities_url_is_beside_the_entry_point() {
        let origin = Origin::of(&"https://cloud.example/".parse().unwrap()).unwrap();
        let asked = |text| capabilities_url(&origin, &path(text));
        assert_eq!(asked("/dav/x"), None);
        let told = "ocs/v2.php/cloud/capabilities?format=json";
        assert_eq!(asked("/remote.php/webdav/x").unwrap(), format!("https://cloud.example/{told}"));
        assert_eq!(asked("/a/remote.php/dav/files/x/").unwrap(), format!("https://cloud.example/a/{told}"));
    }
}
