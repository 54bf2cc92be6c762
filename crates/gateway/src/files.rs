//! The files of a listing, with what identifies their contents.

use std::time::SystemTime;

use dav::{ETag, Item, Multistatus, Properties, RemotePath, siblings::Sibling};
use http::{
    HeaderMap, HeaderValue,
    header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED},
};

/// What a listing says about a file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) length: u64,
    pub(crate) etag: ETag,
    pub(crate) modified: Option<SystemTime>,
    content_type: Option<String>,
}

impl Facts {
    /// None without a length or an entity tag.
    pub(crate) fn new(properties: Properties) -> Option<Self> {
        let Properties { length, etag, modified, content_type, .. } = properties;
        Some(Self { length: length?, etag: etag?, modified, content_type })
    }

    /// The header fields of the file. A field that the listing does not have is left out.
    pub(crate) fn headers(&self) -> HeaderMap {
        let fields = [
            (CONTENT_LENGTH, Some(self.length.to_string())),
            (ETAG, Some(self.etag.to_string())),
            (LAST_MODIFIED, self.modified.map(httpdate::fmt_http_date)),
            (CONTENT_TYPE, self.content_type.clone()),
            (ACCEPT_RANGES, Some("bytes".to_owned())),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::from_str(&value?).ok()?)));
        fields.collect()
    }
}

/// A file of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) path: RemotePath,
    /// With a strong entity tag.
    pub(crate) facts: Facts,
}

/// The files of a folder with strong entity tags.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// In the server's order.
    listed: Vec<File>,
    /// Their numbers, in the order of names.
    by_name: Vec<usize>,
}

impl Files {
    /// Those of a listing of a folder.
    pub(crate) fn parse(listing: &[u8], folder: &RemotePath) -> Self {
        let mut multistatus = Multistatus::new(folder.clone());
        let file = |item| {
            let Ok(Item::Entry(entry)) = item else { return None };
            let is_member = entry.path.parent().is_some_and(|parent| parent.same_place(folder));
            let is_file = entry.status.is_none() && is_member && !entry.path.is_folder();
            let facts = Facts::new(entry.properties).filter(|facts| is_file && !facts.etag.is_weak())?;
            Some(File { path: entry.path, facts })
        };
        let listed: Vec<File> = multistatus.feed(listing).filter_map(file).collect();
        let mut by_name: Vec<_> = (0..listed.len()).collect();
        by_name.sort_by_key(|number| listed[*number].path.name());
        Self { listed, by_name }
    }

    /// A file, and its number in the server's order.
    pub(crate) fn get(&self, name: &[u8]) -> Option<(usize, &File)> {
        let at = self.by_name.binary_search_by_key(&Some(name), |number| self.listed[*number].path.name()).ok()?;
        let number = self.by_name[at];
        Some((number, &self.listed[number]))
    }

    /// The files after a name.
    pub(crate) fn after_name<'a>(&'a self, name: &[u8]) -> impl Iterator<Item = Sibling<usize>> + use<'a> {
        let from = self.by_name.partition_point(|number| self.listed[*number].path.name() <= Some(name));
        self.by_name[from..].iter().map(|number| {
            let file = &self.listed[*number];
            let name = file.path.name().unwrap_or_default().to_vec();
            Sibling { name, file: *number, length: file.facts.length }
        })
    }

    /// The files that the server lists after the one with this [`key`].
    pub(crate) fn after_key<'a>(&'a self, after: &[u8]) -> impl Iterator<Item = Sibling<usize>> + use<'a> {
        let number = after.try_into().map_or(0, |bytes| u64::from_be_bytes(bytes).saturating_add(1));
        let from = usize::try_from(number).unwrap_or(usize::MAX);
        let files = self.listed.iter().enumerate().skip(from);
        files.map(|(number, file)| Sibling { name: key(number), file: number, length: file.facts.length })
    }
}

impl std::ops::Index<usize> for Files {
    type Output = File;

    fn index(&self, number: usize) -> &File {
        &self.listed[number]
    }
}

/// A file's number in the server's order, so that it can stand where names are compared.
pub(crate) fn key(number: usize) -> Vec<u8> {
    (number as u64).to_be_bytes().to_vec()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The listing of `/f/` with these files, each of this length.
    pub(crate) fn listing(names: &[String], length: u64) -> String {
        let file = |name: &String| {
            format!(
                "<D:response><D:href>/f/{name}</D:href><D:propstat><D:prop><D:resourcetype/>\
                 <D:getcontentlength>{length}</D:getcontentlength><D:getetag>\"{name}\"</D:getetag></D:prop>\
                 <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
            )
        };
        let folder = "<D:response><D:href>/f/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype>\
            </D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>";
        let files: String = names.iter().map(file).collect();
        format!("<D:multistatus xmlns:D=\"DAV:\">{folder}{files}</D:multistatus>")
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn files_are_found_by_name_and_in_both_orders() {
        let text = listing(&names(&["c", "a", "b"]), 7);
        let files = Files::parse(text.as_bytes(), &RemotePath::from_url_path("/f/").unwrap());
        let (number, file) = files.get(b"a").unwrap();
        assert_eq!((number, file.facts.length, file.facts.etag.to_string()), (1, 7, "\"a\"".into()));
        assert!(files.get(b"d").is_none() && files.get(b"").is_none());
        let by_name: Vec<_> = files.after_name(b"a").map(|sibling| sibling.file).collect();
        let by_number: Vec<_> = files.after_key(&key(0)).map(|sibling| sibling.file).collect();
        assert_eq!((by_name, by_number), (vec![2, 0], vec![1, 2]));
        assert_eq!(files.after_key(&key(2)).count() + files.after_name(b"c").count(), 0);
        assert_eq!((files.after_key(b"").count(), files.after_name(b"").count()), (3, 3));
    }

    #[test]
    fn a_file_without_a_strong_tag_or_a_length_is_left_out() {
        let text = listing(&names(&["a", "b"]), 7);
        for (from, to) in [
            ("<D:getetag>\"a\"", "<D:getetag>W/\"a\""),
            ("<D:getetag>\"a\"</D:getetag>", ""),
            ("\"a\"</D:getetag></D:prop><D:status>HTTP/1.1 200", "\"a\"</D:getetag></D:prop><D:status>HTTP/1.1 403"),
            ("/f/a", "/f/g/a"),
            ("/f/a", "/g/a"),
        ] {
            let files = Files::parse(text.replace(from, to).as_bytes(), &RemotePath::from_url_path("/f/").unwrap());
            assert!(files.get(b"a").is_none() && files.get(b"b").is_some(), "{to}");
        }
    }
}
