//! Any HAR makes a page that can be written, read and scheduled, or a sentence.

#![no_main]

use std::path::Path;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(imported) = page::import::har::parse(text, Path::new("fuzz.har")) {
        let written = imported.spec.to_toml();
        let read = page::Spec::parse(&written, Path::new("fuzz.toml")).expect("what was written can be read");
        assert_eq!(read.requests.len(), imported.spec.requests.len());
        let _ = (read.depth(), read.floor(std::time::Duration::from_millis(10), None));
    }
});
