//! Names of hosts: an /etc/hosts, and an /etc/resolv.conf, that only the programs in the sandbox see.

use std::{fmt::Write, fs, io, path::Path};

use nix::mount::{MsFlags, mount};

use crate::{addresses::Addresses, sandbox::Sandbox};

const HOSTS: &str = "/etc/hosts";
const RESOLV_CONF: &str = "/etc/resolv.conf";
const OWN_NAME: &str = "/proc/sys/kernel/hostname";

/// Makes the names resolve to these addresses, for all programs in the sandbox. The machine's other names stay valid, and its
/// own name is added if it is missing: many servers look it up when they start (Python's `http.server`, Apache), and without
/// a resolver in reach they would wait for its timeouts.
pub fn install(sandbox: &Sandbox, names: &[(String, Addresses)]) -> io::Result<()> {
    let file = sandbox.scratch().join("hosts");
    let machine = fs::read_to_string(HOSTS).unwrap_or_default();
    let own = fs::read_to_string(OWN_NAME).unwrap_or_default();
    fs::write(&file, hosts_file(&machine, own.trim(), names))?;
    mount(Some(&file), Path::new(HOSTS), None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    Ok(())
}

/// A resolv.conf(5) without resolvers.
const NO_RESOLVER: &str = "# The hosts of this link reach no resolver; `haul link --outside` lets them.\n";

/// Makes other names fail at once, for all programs in the sandbox: a resolver that no host reaches would let each look-up
/// wait for its time-outs, 20 s. Without resolvers, programs ask their own host (resolv.conf(5)), where none listens.
pub fn hide_resolvers(sandbox: &Sandbox) -> io::Result<()> {
    let file = sandbox.scratch().join("resolv.conf");
    fs::write(&file, NO_RESOLVER)?;
    mount(Some(&file), Path::new(RESOLV_CONF), None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    Ok(())
}

/// The address of a Debian machine's own name.
const OWN_ADDRESS: &str = "127.0.1.1";

/// A hosts(5) file with these names, in front of those of `machine`, and with its `own` name. A name keeps none of its other
/// addresses: some resolvers return all.
fn hosts_file(machine: &str, own: &str, names: &[(String, Addresses)]) -> String {
    let mut text = String::new();
    let mut has_own = own.is_empty() || names.iter().any(|(name, _)| name.eq_ignore_ascii_case(own));
    for (name, Addresses { v4, v6 }) in names {
        let _ = writeln!(text, "{v4} {name}\n{v6} {name}");
    }
    for line in machine.lines() {
        let entry = line.split('#').next().unwrap_or_default();
        let is_ours = |word: &&str| names.iter().any(|(name, _)| name.eq_ignore_ascii_case(word));
        let mut words = entry.split_whitespace();
        let Some(address) = words.next() else { continue };
        let kept: Vec<_> = words.filter(|word| !is_ours(word)).collect();
        has_own |= kept.iter().any(|word| word.eq_ignore_ascii_case(own));
        if !kept.is_empty() {
            let _ = writeln!(text, "{address} {}", kept.join(" "));
        }
    }
    if !has_own {
        let _ = writeln!(text, "{OWN_ADDRESS} {own}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_replace_those_of_the_machine() {
        let machine =
            "127.0.0.1 localhost\n# 1.1.1.1 x\n10.0.0.1 Server\n10.0.0.2 server.example server other # ours\n";
        assert_eq!(
            hosts_file(machine, "other", &[("server".to_owned(), Addresses::of(3, 2))]),
            "100.64.3.2 server\nfd00:6861:756c:3::2 server\n127.0.0.1 localhost\n10.0.0.2 server.example other\n"
        );
    }

    #[test]
    fn machine_has_its_own_name_once() {
        let names = [("server".to_owned(), Addresses::of(0, 2))];
        let added = |own| hosts_file("127.0.0.1 localhost Laptop\n", own, &names).contains(OWN_ADDRESS);
        assert_eq!(["vm", "laptop", "server", ""].map(added), [true, false, false, false]);
    }
}
