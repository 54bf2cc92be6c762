//! Cells that are known to be wrong: behaviour, validators, commands. `*` is any.

const KNOWN_FAULTS: &[(&str, &str, &[&str])] =
    &[("refuses one, answers as done", "*", &["cp up", "digest up", "sync up", "delete up", "delete to"])];

pub(crate) fn contains(behaviour: &str, validators: &str, command: &str) -> bool {
    let is = |known: &str, given: &str| known == "*" || known == given;
    KNOWN_FAULTS.iter().any(|(one, other, commands)| {
        is(one, behaviour) && is(other, validators) && commands.iter().any(|known| is(known, command))
    })
}
