//! A second realm, OTHER.TEST, which trusts the first one and is trusted by it: its users get tickets for services there. Its
//! database is the KDC's own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Daemon,
    common::{Room, eventually, output, printed},
    free_port,
    realm::{GATEWAY, Realm},
};

/// A running realm with the user ann, who is not the ann of the first one.
pub(crate) struct OtherRealm {
    _kdc: Daemon,
    folder: PathBuf,
}

impl OtherRealm {
    pub(crate) fn start(room: &Room, first: &Realm) -> Self {
        let folder = room.path("other-realm");
        fs::create_dir(&folder).expect("a folder");
        let (at, port) = (folder.display(), free_port());
        let realms = format!("[realms]\nOTHER.TEST = {{\n kdc = 127.0.0.1:{port}\n}}\n");
        let domains = "[domain_realm]\n.example.test = EXAMPLE.TEST\n";
        let client = first.configuration().replace("[realms]\n", &realms) + domains;
        let kdc = format!(
            "[kdcdefaults]
kdc_listen = 127.0.0.1:{port}
kdc_tcp_listen = 127.0.0.1:{port}
[realms]
OTHER.TEST = {{
 database_name = {at}/principal
 key_stash_file = {at}/stash
 acl_file = {at}/acl
}}
[logging]
kdc = FILE:{at}/kdc.log
"
        );
        fs::write(folder.join("krb5.conf"), client).expect("a file");
        fs::write(folder.join("kdc.conf"), kdc).expect("a file");
        let run = |program: &str, arguments: &[&str]| {
            let mut command = room.command(program);
            environment(&folder, &mut command);
            command.args(["-r", "OTHER.TEST"]).args(arguments);
            printed(&output(command));
        };
        run("/usr/sbin/kdb5_util", &["create", "-s", "-P", "of the test"]);
        for (name, password) in [("ann", Realm::password("ann").as_str()), ("krbtgt/EXAMPLE.TEST", "trust")] {
            run("/usr/sbin/kadmin.local", &["-p", "admin@OTHER.TEST", "addprinc", "-pw", password, name]);
        }
        first.administer(room, &["addprinc", "-pw", "trust", "krbtgt/EXAMPLE.TEST@OTHER.TEST"]);
        let mut command = Daemon::command(room, "/usr/sbin/krb5kdc");
        environment(&folder, &mut command);
        command.args(["-n", "-r", "OTHER.TEST"]);
        Self { _kdc: Daemon::start(command), folder }
    }

    /// Lets a program find both realms, and the tickets of ann, who has one for the gateway.
    pub(crate) fn log_in(&self, room: &Room, command: &mut Command) {
        let cache = format!("FILE:{}", self.folder.join("cache").display());
        let logs_in = || {
            let mut kinit = room.command("/usr/bin/kinit");
            environment(&self.folder, &mut kinit);
            kinit.args(["-c", &cache, "ann@OTHER.TEST"]);
            let done = assert_cmd::Command::from_std(kinit).write_stdin(Realm::password("ann")).output();
            done.expect("it starts").status.success()
        };
        assert!(eventually(logs_in), "the KDC does not answer");
        environment(&self.folder, command);
        command.env("KRB5CCNAME", &cache);
        let mut kvno = room.command("/usr/bin/kvno");
        environment(&self.folder, &mut kvno);
        kvno.env("KRB5CCNAME", &cache).arg(format!("{GATEWAY}@EXAMPLE.TEST"));
        printed(&output(kvno));
    }
}

fn environment(folder: &Path, command: &mut Command) {
    command.env("KRB5_CONFIG", folder.join("krb5.conf")).env("KRB5_KDC_PROFILE", folder.join("kdc.conf"));
}
