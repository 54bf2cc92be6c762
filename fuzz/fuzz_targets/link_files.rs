//! Any file of delays, loss trace, rate trace and change of a link is read or refused; a change prints as it reads.

#![no_main]

use link::{
    spec::{Change, LinkSpec},
    stages::{Delays, Losses, Schedule},
};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = (Delays::parse(text), Losses::parse(text), Schedule::parse(text));
    if let Ok(change) = text.parse::<Change>() {
        assert_eq!(change.to_string().parse().as_ref(), Ok(&change));
        let changed = change.apply(&LinkSpec { rate: "1mbit".parse().ok(), ..LinkSpec::default() });
        changed.expect("it was checked").to_string();
    }
});
