//! Which files to fetch before a client reads them.
//!
//! Who copies a folder reads its files one after another, in the order in which the server lists them, or in that of their
//! names. [`dav::siblings`] recognizes both, and bounds what is fetched ahead.

use std::collections::HashMap;

use dav::{RemotePath, siblings::Siblings};

use crate::files::{Files, key};

/// The largest number of folders whose files are read.
const FOLDERS: usize = 64;

/// How the files of a credential's folders are read.
#[derive(Debug, Default)]
pub(crate) struct Prefetch {
    folders: HashMap<RemotePath, Orders>,
    reads: u64,
}

#[derive(Debug, Default)]
struct Orders {
    by_name: Siblings,
    as_listed: Siblings,
    last: u64,
}

impl Prefetch {
    /// A client begins to read a file of a folder. Returns the numbers of the files to fetch now.
    pub(crate) fn read(&mut self, folder: &RemotePath, files: &Files, name: &[u8]) -> Vec<usize> {
        let Some((number, _)) = files.get(name) else { return Vec::new() };
        self.reads += 1;
        if !self.folders.contains_key(folder) && self.folders.len() >= FOLDERS {
            let oldest = self.folders.iter().min_by_key(|(_, orders)| orders.last).map(|(folder, _)| folder.clone());
            oldest.map(|oldest| self.folders.remove(&oldest));
        }
        let orders = self.folders.entry(folder.clone()).or_default();
        orders.last = self.reads;
        let mut wanted = orders.as_listed.read(&key(number), |after| files.after_key(after)).0;
        wanted.extend(orders.by_name.read(name, |after| files.after_name(after)).0);
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::tests::listing;

    fn folder() -> RemotePath {
        RemotePath::from_url_path("/f/").unwrap()
    }

    /// The names that are fetched when these are read, in a folder that lists its files so.
    fn fetched(listed: &[String], read: &[String]) -> Vec<String> {
        let files = Files::parse(listing(listed, 100).as_bytes(), &folder());
        let mut prefetch = Prefetch::default();
        let wanted = read.iter().flat_map(|name| prefetch.read(&folder(), &files, name.as_bytes()));
        let mut wanted: Vec<_> = wanted.map(|number| listed[number].clone()).collect();
        wanted.sort();
        wanted.dedup();
        wanted
    }

    #[test]
    fn both_orders_are_recognized_and_no_other() {
        let sorted: Vec<_> = (0..50).map(|number| format!("{number:02}")).collect();
        // Neighbours in this order are none by name.
        let listed: Vec<_> = (0..50).map(|number| format!("{:02}", number * 23 % 50)).collect();
        assert_eq!(fetched(&listed, &sorted).len(), 48, "the first two show the order");
        assert_eq!(fetched(&listed, &listed).len(), 48);
        let jumps: Vec<_> = [40, 20, 3].map(|number| sorted[number].clone()).into();
        assert!(fetched(&sorted, &jumps).is_empty());
        assert!(fetched(&sorted, &["x".to_owned()]).is_empty());
    }

    #[test]
    fn folders_are_bounded() {
        let files = Files::parse(listing(&["a".to_owned()], 1).as_bytes(), &folder());
        let mut prefetch = Prefetch::default();
        for number in 0..FOLDERS + 5 {
            let folder = RemotePath::from_url_path(&format!("/{number}/")).unwrap();
            prefetch.read(&folder, &files, b"a");
        }
        assert_eq!(prefetch.folders.len(), FOLDERS);
    }
}
