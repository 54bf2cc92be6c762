//! `mount.haul`: the helper that mount(8) calls for a line of fstab.
//!
//! For the line `https://dav.example.org/ /mnt/cloud haul ro,fresh=60s,_netdev 0 0`, mount(8) runs
//! `mount.haul https://dav.example.org/ /mnt/cloud -o ro,fresh=60s,_netdev`. `haul`, called under that name, takes this for
//! `haul mount https://dav.example.org/ /mnt/cloud --read-only --fresh=60s`.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

/// The name of the helper.
const HELPER: &str = "mount.haul";

/// Options of mount(8) and systemd.mount(5) that are for others, or what a mount is anyway.
const FOR_OTHERS: [&str; 14] = [
    "rw", "defaults", "auto", "noauto", "nofail", "user", "users", "nouser", "owner", "group", "_netdev", "nodev",
    "nosuid", "noatime",
];

/// Options without a value.
const SWITCHES: [(&str, &str); 5] = [
    ("ro", "--read-only"),
    ("allow_other", "--allow-other"),
    ("insecure", "--insecure"),
    ("properties", "--properties"),
    ("no_xattr", "--no-xattr"),
];

/// Options with a value, called as those of `haul mount`, with `_` or `-` between words.
const VALUES: [&str; 14] = [
    "fresh",
    "cache-dir",
    "cache-size",
    "uid",
    "gid",
    "umask",
    "password-file",
    "ca",
    "client-cert",
    "client-key",
    "lock",
    "write",
    "journal-size",
    "timeout",
];

/// The arguments of `haul` if it was called as [`HELPER`]: those of `haul mount`. Otherwise as they are.
pub(crate) fn translated(arguments: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let is_helper = arguments.first().is_some_and(|name| Path::new(name).file_name() == Some(OsStr::new(HELPER)));
    if !is_helper {
        return Ok(arguments);
    }
    let mut translated: Vec<OsString> = vec!["haul".into(), "mount".into()];
    let mut given = arguments.into_iter().skip(1);
    while let Some(argument) = given.next() {
        match argument.to_str() {
            Some("-o") => {
                let list = given.next().and_then(|list| list.into_string().ok());
                let list = list.ok_or("mount.haul: a list of options has to follow -o")?;
                for option in list.split(',').filter(|option| !option.is_empty()) {
                    translated.extend(option_of(option)?);
                }
            }
            // Sloppy, fake, no mtab, verbose; and the type (mount(8), "EXTERNAL HELPERS").
            Some("-s" | "-n" | "-v") => {}
            Some("-t") => drop(given.next()),
            Some(flag) if flag.starts_with('-') => return Err(format!("mount.haul: unknown option {flag}")),
            _ => translated.push(argument),
        }
    }
    Ok(translated)
}

/// The option of `haul mount` for one of fstab; none if it is for others.
fn option_of(option: &str) -> Result<Option<OsString>, String> {
    if FOR_OTHERS.contains(&option) || option.starts_with("x-") || option.starts_with("comment=") {
        return Ok(None);
    }
    if let Some((_, switch)) = SWITCHES.iter().find(|(name, _)| *name == option) {
        return Ok(Some((*switch).into()));
    }
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    let name = name.replace('_', "-");
    if VALUES.contains(&&*name) && !value.is_empty() {
        return Ok(Some(format!("--{name}={value}").into()));
    }
    // The value may be a password.
    let names = SWITCHES.iter().map(|(name, _)| (*name).to_owned());
    let names = names.chain(VALUES.map(|name| format!("{}=", name.replace('-', "_"))));
    let names = names.collect::<Vec<_>>().join(", ");
    Err(format!("mount.haul: unknown option {name}; there are {names}, and those of mount(8)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translate(line: &str) -> Result<String, String> {
        let arguments = translated(line.split(' ').map(OsString::from).collect())?;
        Ok(arguments.join(OsStr::new(" ")).into_string().unwrap())
    }

    #[test]
    fn a_line_of_fstab_is_a_command() {
        assert_eq!(
            translate(
                "/sbin/mount.haul https://dav.example/ /mnt -n -o rw,_netdev,x-systemd.automount,cache_size=1GiB,ro"
            ),
            Ok("haul mount https://dav.example/ /mnt --cache-size=1GiB --read-only".into())
        );
        assert_eq!(translate("haul ls -o x"), Ok("haul ls -o x".into()));
    }

    #[test]
    fn an_unknown_option_is_named() {
        for (option, name) in [("fast", "fast"), ("uid", "uid"), ("uid=", "uid"), ("password=secret", "password")] {
            let told = translate(&format!("mount.haul https://dav.example/ /mnt -o {option}")).unwrap_err();
            assert!(!told.contains("secret"), "{told}");
            assert!(told.starts_with(&format!("mount.haul: unknown option {name}; there are ro,")), "{told}");
            assert!(told.contains(" properties, no_xattr, fresh=, cache_dir=,"), "{told}");
        }
    }
}
