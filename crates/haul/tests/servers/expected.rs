//! Cells that are known to be wrong and are to be mended: behaviour, validators, commands. `*` is any.

const TO_BE_MENDED: &[(&str, &str, &[&str])] =
    &[("refuses one, answers as done", "*", &["cp up", "digest up", "sync up", "delete up", "delete to"])];

pub(crate) fn is_to_be_mended(behaviour: &str, validators: &str, command: &str) -> bool {
    let is = |known: &str, given: &str| known == "*" || known == given;
    TO_BE_MENDED.iter().any(|(one, other, commands)| {
        is(one, behaviour) && is(other, validators) && commands.iter().any(|known| is(known, command))
    })
}
