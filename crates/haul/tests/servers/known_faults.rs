//! Cells that are known to be wrong: behaviour, validators, commands. `*` is any.
//!
//! A random behaviour does not go wrong in every run: that depends on which request it meets, and which response
//! overtakes which. So only the cell of another behaviour is known to be fixed when it is right.

const KNOWN_FAULTS: &[(&str, &str, &[&str])] =
    &[("refuses one, answers as done", "*", &["cp up", "digest up", "sync up", "delete up", "delete to"])];

pub(crate) fn contains(behaviour: &str, validators: &str, command: &str) -> bool {
    let is = |known: &str, given: &str| known == "*" || known == given;
    KNOWN_FAULTS.iter().any(|(one, other, commands)| {
        is(one, behaviour) && is(other, validators) && commands.iter().any(|known| is(known, command))
    })
}
