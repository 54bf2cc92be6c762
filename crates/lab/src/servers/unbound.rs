//! Unbound, a widely used resolver, for the workload that looks up names. It is authoritative for one zone, so it
//! answers without asking others, and it accepts queries in SYNs.

use super::{Folder, Running, Server, ServerError, Setup, ZONE, launch};
use crate::process::{Missing, Program};

const NAME: &str = "unbound";
const UNBOUND: Program = Program { name: "unbound", package: "unbound", version: "-V" };

pub(super) struct Unbound;

impl Server for Unbound {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> &'static str {
        "Unbound, a DNS resolver, which answers for every name by itself"
    }

    fn missing(&self) -> Option<Missing> {
        UNBOUND.find().err()
    }

    fn resolves(&self) -> bool {
        true
    }

    fn settings(&self) -> Vec<(String, String)> {
        [("version", UNBOUND.version().as_str()), ("module-config", "iterator")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    fn start(&self, setup: &Setup) -> Result<Running, ServerError> {
        let folder = Folder::new(NAME, setup.scratch)?;
        let root = folder.folder("root")?;
        let config = folder.file("unbound.conf", &configuration(setup))?;
        let mut command = UNBOUND.command(setup.scratch)?;
        launch(NAME, setup, command.arg("-d").arg("-c").arg(config), &folder, root)
    }
}

fn configuration(setup: &Setup) -> String {
    let scratch = |name: &str| setup.scratch.join(name).display().to_string();
    format!(
        r#"server:
    do-daemonize: no
    username: ""
    chroot: ""
    directory: "{}"
    pidfile: "{}"
    use-syslog: no
    logfile: ""
    interface: {}@{}
    access-control: 0.0.0.0/0 allow
    module-config: "iterator"
    num-threads: 1
    incoming-num-tcp: 64
    local-zone: "{ZONE}." redirect
    local-data: "{ZONE}. 300 IN A 192.0.2.1"
remote-control:
    control-enable: no
"#,
        scratch(""),
        scratch("pid"),
        setup.address.ip(),
        setup.address.port(),
    )
}
