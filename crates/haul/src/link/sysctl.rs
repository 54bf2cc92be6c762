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
            return Err("write it like `net.ipv4.tcp_fastopen=3`; a host has only settings below `net.`".to_owned());
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

impl Sysctl {
    pub(crate) fn set(&self, host: &Host) -> Result<(), Box<dyn Error>> {
        let Self { name, value } = self;
        let Err(error) = host.sysctl(name, value) else { return Ok(()) };
        if host.read_sysctl(name).is_err() {
            return Err(format!("unknown sysctl {name}; `haul link -q -- sysctl -a` lists all").into());
        }
        if name != CONGESTION_CONTROL {
            return Err(error.into());
        }
        let list = |kind: &str| host.read_sysctl(&format!("net.ipv4.tcp_{kind}_congestion_control"));
        let (Ok(allowed), Ok(available)) = (list("allowed"), list("available")) else { return Err(error.into()) };
        Err(format!("{error}; {}", congestion_controls(value, &allowed, &available)).into())
    }
}

/// Why a host cannot use a congestion control, and what to do. In a network namespace the kernel accepts only those that
/// are allowed for everyone (`tcp_set_default_congestion_control`).
fn congestion_controls(wanted: &str, allowed: &str, available: &str) -> String {
    if available.split_whitespace().any(|name| name == wanted) {
        format!(
            "hosts may only use those in net.ipv4.tcp_allowed_congestion_control ({allowed}); root can add it: \
             sysctl net.ipv4.tcp_allowed_congestion_control=\"{allowed} {wanted}\""
        )
    } else {
        format!(
            "this machine has {available} (net.ipv4.tcp_available_congestion_control), and hosts may use {allowed} \
             (net.ipv4.tcp_allowed_congestion_control); root can load more: modprobe tcp_{wanted}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_of_a_host_are_accepted() {
        for wrong in ["net.ipv4.tcp_fastopen", "net.ipv4.tcp_fastopen=", "kernel.hostname=x", "net...x=1", "net./etc=1"]
        {
            assert!(wrong.parse::<Sysctl>().unwrap_err().contains("write it like"), "{wrong}");
        }
        let Sysctl { name, value } = "net.ipv4.tcp_rmem = 4096 131072 6291456".parse().unwrap();
        assert_eq!((&*name, &*value), ("net.ipv4.tcp_rmem", "4096 131072 6291456"));
    }

    #[test]
    fn error_says_how_to_allow_or_load_a_congestion_control() {
        let said = congestion_controls("cubic", "reno bbr", "reno bbr cubic");
        assert!(said.ends_with("sysctl net.ipv4.tcp_allowed_congestion_control=\"reno bbr cubic\""), "{said}");
        let said = congestion_controls("vegas", "reno bbr", "reno bbr cubic");
        assert!(said.contains("has reno bbr cubic") && said.ends_with("modprobe tcp_vegas"), "{said}");
    }
}
