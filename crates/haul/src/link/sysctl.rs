//! Settings of the hosts' TCP stacks: `--sysctl net.ipv4.tcp_fastopen=3`.

use std::{error::Error, str::FromStr};

use link::host::Host;

const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";

/// A sysctl to set, `NAME=VALUE`.
#[derive(Debug, Clone)]
pub(crate) struct Sysctl {
    name: String,
    value: String,
}

impl FromStr for Sysctl {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let (name, value) = (name.trim(), value.trim());
        if !name.starts_with("net.") || name.contains("..") || name.contains('/') || value.is_empty() {
            return Err(
                "write it like net.ipv4.tcp_fastopen=3; only what begins with net. belongs to a host".to_owned()
            );
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

impl Sysctl {
    pub(crate) fn set(&self, host: &Host) -> Result<(), Box<dyn Error>> {
        let Self { name, value } = self;
        let Err(error) = host.sysctl(name, value) else { return Ok(()) };
        if host.read_sysctl(name).is_err() {
            return Err(
                format!("no host has a setting {name}; `haul link -q -- sysctl -a` lists those there are").into()
            );
        }
        if name != CONGESTION_CONTROL {
            return Err(error.into());
        }
        let list = |kind: &str| host.read_sysctl(&format!("net.ipv4.tcp_{kind}_congestion_control"));
        let (Ok(allowed), Ok(available)) = (list("allowed"), list("available")) else { return Err(error.into()) };
        Err(format!("{error}; {}", congestion_controls(value, &allowed, &available)).into())
    }
}

/// Why a host cannot have a congestion control, and what to do: outside the machine's own network the
/// kernel takes only those that are allowed to everybody (`tcp_set_default_congestion_control`).
fn congestion_controls(wanted: &str, allowed: &str, available: &str) -> String {
    if available.split_whitespace().any(|name| name == wanted) {
        format!(
            "a host may use what net.ipv4.tcp_allowed_congestion_control lists ({allowed}), and root can let it: \
             sysctl net.ipv4.tcp_allowed_congestion_control=\"{allowed} {wanted}\""
        )
    } else {
        format!(
            "this machine has {available} (net.ipv4.tcp_available_congestion_control), of which a host may use \
             {allowed} (net.ipv4.tcp_allowed_congestion_control); root may have more with modprobe tcp_{wanted}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_of_a_host_are_taken() {
        for wrong in ["net.ipv4.tcp_fastopen", "net.ipv4.tcp_fastopen=", "kernel.hostname=x", "net...x=1", "net./etc=1"]
        {
            assert!(wrong.parse::<Sysctl>().unwrap_err().contains("write it like"), "{wrong}");
        }
        let Sysctl { name, value } = "net.ipv4.tcp_rmem = 4096 131072 6291456".parse().unwrap();
        assert_eq!((&*name, &*value), ("net.ipv4.tcp_rmem", "4096 131072 6291456"));
    }

    #[test]
    fn a_congestion_control_that_is_there_but_not_allowed_is_told_with_how_to_allow_it() {
        let said = congestion_controls("cubic", "reno bbr", "reno bbr cubic");
        assert!(said.ends_with("sysctl net.ipv4.tcp_allowed_congestion_control=\"reno bbr cubic\""), "{said}");
        let said = congestion_controls("vegas", "reno bbr", "reno bbr cubic");
        assert!(said.contains("has reno bbr cubic") && said.ends_with("modprobe tcp_vegas"), "{said}");
    }
}
