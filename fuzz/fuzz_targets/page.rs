//! Any spec, in TOML or JSON, is read or refused; what is read can be written and scheduled.

#![no_main]

use std::path::Path;

libfuzzer_sys::fuzz_target!(|text: &str| {
    for name in ["fuzz.toml", "fuzz.json"] {
        // Bodies in files of whatever name are not looked for.
        if let Ok(spec) = page::Spec::parse(text, &Path::new("/nonexistent").join(name)) {
            let read =
                page::Spec::parse(&spec.to_toml(), Path::new("fuzz.toml")).expect("what was written can be read");
            assert_eq!(read.requests.len(), spec.requests.len());
            let _ = page::waterfall::render(
                &spec,
                &[std::time::Duration::MAX],
                None,
                page::waterfall::Look { width: 80, colour: true },
            );
        }
    }
});
