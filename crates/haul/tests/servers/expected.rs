//! Cells that are known to be wrong and are to be mended: behaviour, validators, commands. `*` is any.

const TO_BE_MENDED: &[(&str, &str, &[&str])] = &[
    (
        "answers as done",
        "*",
        &["cp up", "digest up", "sync up", "delete up", "cp down", "digest down", "sync down", "delete down"],
    ),
    ("drops a GET", "*", &["digest up", "cp down", "digest down", "sync down", "delete down"]),
    ("drops a PUT", "*", &["sync up", "delete up"]),
    ("drops a DELETE", "*", &["delete up"]),
    ("drops a MKCOL", "*", &["cp up", "digest up"]),
    (
        "drops a PROPFIND",
        "*",
        &["cp up", "digest up", "sync up", "delete up", "cp down", "digest down", "sync down", "delete down"],
    ),
    ("drops the answer to a GET", "*", &["digest up", "cp down", "digest down", "sync down", "delete down"]),
    ("drops the answer to a DELETE", "*", &["delete up"]),
    (
        "drops the answer to a PROPFIND",
        "*",
        &["cp up", "digest up", "sync up", "delete up", "cp down", "digest down", "sync down", "delete down"],
    ),
    (
        "swaps two answers",
        "*",
        &["cp up", "digest up", "sync up", "delete up", "cp down", "digest down", "sync down", "delete down"],
    ),
    (
        "answers one twice",
        "*",
        &["cp up", "digest up", "sync up", "delete up", "cp down", "digest down", "sync down", "delete down"],
    ),
    (
        "refuses one, answers as done",
        "*",
        &["cp up", "digest up", "sync up", "delete up", "cp down", "digest down", "sync down", "delete down"],
    ),
    ("does one, and resets", "*", &["rm", "mkdir"]),
    (
        "nonce ends after 7 requests",
        "*",
        &["cp up", "digest up", "sync up", "delete up", "cp down", "digest down", "sync down", "delete down"],
    ),
    ("clock 10 min ahead", "*", &["sync up", "delete up"]),
    ("composes names (NFC)", "*", &["cp up", "digest up", "sync up", "delete up"]),
    ("names a length 5 too long", "*", &["digest up", "cp down", "digest down", "sync down", "delete down", "cat"]),
    ("names a length 5 too short", "*", &["digest up", "cat"]),
    ("lists a part, and says so (507)", "*", &["cp up", "digest up", "sync down", "delete down"]),
    ("hides dotfiles", "*", &["cp up", "digest up", "sync up", "delete up"]),
];

pub(crate) fn is_to_be_mended(behaviour: &str, validators: &str, command: &str) -> bool {
    let is = |known: &str, given: &str| known == "*" || known == given;
    TO_BE_MENDED.iter().any(|(one, other, commands)| {
        is(one, behaviour) && is(other, validators) && commands.iter().any(|known| is(known, command))
    })
}
