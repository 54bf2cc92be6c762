//! Any manifests, one after another with a zero byte between, make a page, or a sentence.

#![no_main]

use std::path::Path;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let mut texts = text.split('\0');
    let (reqs, resp, hosts) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default(), texts.next());
    if let Ok(imported) = page::import::cs244_manifests::parse(reqs, resp, hosts, Path::new("fuzz.reqs")) {
        let read =
            page::Spec::parse(&imported.spec.to_toml(), Path::new("fuzz.toml")).expect("what was written can be read");
        assert_eq!(read.requests, imported.spec.requests);
    }
});
