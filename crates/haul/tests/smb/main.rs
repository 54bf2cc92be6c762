//! `haul gateway smb` with real Samba, smbclient, impacket as a second client library, and `haul serve` with two users.
//! Needs root.

#[path = "../common/mod.rs"]
mod common;
mod library;
mod two_clients;

use std::{
    fs::{self, File, Permissions},
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::PathBuf,
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use common::{HAUL, Room, Running, eventually, text};
use libtest_mimic::{Arguments, Failed, Trial};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, Uid, chown},
};

type Test = fn() -> Result<(), Failed>;

/// An ordinary user.
const NOBODY: u32 = 65534;

fn main() {
    let arguments = Arguments::from_args();
    let missing = missing();
    if let Some(missing) = &missing {
        eprintln!("SKIPPED: the SMB gateway: {missing}");
    }
    let tests: [(&str, Test); 9] = [
        ("each_user_acts_under_their_own_name", each_user_acts_under_their_own_name),
        ("user_without_enrolment_is_refused_and_the_log_says_why", user_without_enrolment_is_refused),
        ("open_file_is_kept_from_a_second_client", open_file_is_kept_from_a_second_client),
        ("names_match_in_any_case", names_match_in_any_case),
        ("taken_port_and_state_folder_are_named", taken_port_and_state_folder_are_named),
        ("dead_mount_is_replaced", dead_mount_is_replaced),
        ("mount_ends_when_idle_and_when_revoked", mount_ends_when_idle_and_when_revoked),
        ("nothing_is_left_after_sigterm_and_sigkill", nothing_is_left),
        ("one_user_is_served_without_root", one_user_is_served_without_root),
    ];
    let trials = tests.into_iter().map(|(name, test)| Trial::test(name, test).with_ignored_flag(missing.is_some()));
    let lacks_library = missing.is_some() || !library::is_installed();
    if missing.is_none() && lacks_library {
        eprintln!("SKIPPED: the SMB gateway with a second client library: python3-impacket is not installed");
    }
    let second = two_clients::TESTS.into_iter();
    let second = second.map(|(name, test)| Trial::test(name, test).with_ignored_flag(lacks_library));
    libtest_mimic::run(&arguments, trials.chain(second).collect()).exit();
}

/// What this machine lacks.
fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    for (program, package) in [("smbd", "samba"), ("pdbedit", "samba-common-bin"), ("smbclient", "smbclient")] {
        if !["/usr/sbin", "/usr/bin"].iter().any(|folder| PathBuf::from(folder).join(program).exists()) {
            return Some(format!("{program} is not installed; apt-get install {package}"));
        }
    }
    if let Err(error) = File::options().read(true).write(true).open("/dev/fuse") {
        return Some(format!("/dev/fuse: {error}"));
    }
    let namespaces = Command::new("unshare").args(["--user", "--mount", "--pid", "--fork", "true"]).output();
    (!namespaces.is_ok_and(|tried| tried.status.success())).then(|| "no namespaces".to_owned())
}

/// A server with the users ann and bob, and an SMB gateway before it.
struct World {
    // Ended first, in this order.
    gateway: Option<Running>,
    _server: Running,
    said: Arc<Mutex<String>>,
    port: u16,
    upstream: String,
    room: Room,
    /// Who runs the gateway, if not root.
    uid: Option<u32>,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port()
}

impl World {
    fn new() -> Self {
        Self::with(&[])
    }

    /// Whose gateway has these options.
    fn with(options: &[&str]) -> Self {
        Self::of(&["ann", "bob"], None, options)
    }

    /// Whose gateway knows these users, and is run by this one.
    fn of(users: &[&str], uid: Option<u32>, options: &[&str]) -> Self {
        let room = Room::new();
        chown(&room.path("."), uid.map(Uid::from_raw), None).expect("it is ours");
        chown(&room.path("tmp"), uid.map(Uid::from_raw), None).expect("it is ours");
        // Samba's processes go through it as other users.
        fs::set_permissions(room.path("."), Permissions::from_mode(0o755)).expect("it is ours");
        for user in ["ann", "bob"] {
            fs::create_dir_all(room.path("there").join(user)).expect("a folder");
        }
        let lines = ["ann", "bob"].map(|user| format!("{user}:{}\n", bcrypt::hash(format!("{user}'s"), 4).unwrap()));
        fs::write(room.path("passwords"), lines.concat()).expect("a file");
        let address = format!("127.0.0.1:{}", free_port());
        let mut server = room.command(HAUL);
        server.arg("serve").arg(room.path("there")).args(["--listen", &address]);
        server.arg("--auth").arg(room.path("passwords")).arg("--log").arg(room.path("access.log"));
        let server = Running::start({
            server.stdout(Stdio::null()).stderr(Stdio::null());
            server
        });
        assert!(eventually(|| TcpStream::connect(&address).is_ok()), "the server does not start");
        let upstream = format!("http://{address}/{{user}}/");
        let mut world =
            Self { gateway: None, _server: server, said: Arc::default(), port: free_port(), upstream, room, uid };
        for user in users {
            let enrolled = world.enroll(&[user], &format!("{user}'s\nsmb {user}\n"));
            assert!(enrolled.status.success(), "{}", text(&enrolled.stderr));
        }
        world.start(options);
        world
    }

    /// `haul`, as the user who runs the gateway.
    fn haul(&self) -> Command {
        let mut command = self.room.command(HAUL);
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid).env("HOME", self.room.path("tmp"));
        }
        command
    }

    fn place(&self, command: &mut Command) {
        command.arg("--state").arg(self.room.path("state")).arg("--key").arg(self.room.path("key"));
    }

    fn enroll(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = self.haul();
        command.args(["gateway", "enroll"]).args(arguments);
        self.place(&mut command);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
        child.wait_with_output().expect("it is ours")
    }

    fn start(&mut self, options: &[&str]) {
        let mut command = self.haul();
        command.args(["gateway", "smb", "--upstream", &self.upstream, "--share", "files", "--address", "127.0.0.1"]);
        command.args(["--port", &self.port.to_string(), "--fresh", "1s"]).args(options);
        self.place(&mut command);
        let mut child =
            command.env("HAUL_LOG", "warn,gateway=info,fuser=error").stderr(Stdio::piped()).spawn().expect("it starts");
        let stderr = child.stderr.take().expect("it is piped");
        let said = self.said.clone();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                said.lock().unwrap().extend([line.as_str(), "\n"]);
            }
        });
        self.gateway = Some(Running(child));
        self.wait_for("Ctrl-C stops");
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    fn wait_for(&self, what: &str) {
        let is_over = || self.said().contains("has ended (") || self.said().contains("error:");
        assert!(eventually(|| self.said().contains(what) || is_over()), "it never said {what}:\n{}", self.said());
        assert!(self.said().contains(what), "it never said {what}:\n{}", self.said());
    }

    fn smbclient(&self, user: &str, password: &str, commands: &str) -> Command {
        let login = self.room.path(&format!("login-{user}-{}", password.len()));
        fs::write(&login, format!("username = {user}\npassword = {password}\n")).expect("a file");
        let mut command = self.room.command("smbclient");
        command.args(["//127.0.0.1/files", "--configfile", "/dev/null", "--debuglevel", "0"]);
        command.args(["--port", &self.port.to_string(), "--command", commands]);
        command.arg("--authentication-file").arg(login);
        command
    }

    /// Runs commands of smbclient as a user, with the right password.
    fn smb(&self, user: &str, commands: &str) -> Output {
        common::output(self.smbclient(user, &format!("smb {user}"), commands))
    }

    /// As above; and they succeed.
    fn done(&self, user: &str, commands: &str) -> String {
        let output = self.smb(user, commands);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success() && !said.contains("NT_STATUS"), "{said}\n{}", self.said());
        said
    }

    fn local(&self, name: &str, content: &str) -> String {
        let path = self.room.path(name);
        fs::write(&path, content).expect("a file");
        path.display().to_string()
    }

    fn there(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.room.path("there").join(path)).ok()
    }

    /// The processes that have this text in their command line, besides the room's path.
    fn processes(&self, part: &str) -> Vec<i32> {
        let room = self.room.path("state").display().to_string();
        let all = common::processes("cmdline").into_iter();
        all.filter(|(_, line)| line.contains(&room) && line.contains(part)).map(|(pid, _)| pid).collect()
    }

    fn has_mount(&self, user: &str) -> bool {
        !self.processes(&format!("mounts/{user}")).is_empty()
    }

    fn assert_nothing_is_left(&self) {
        assert!(eventually(|| self.processes("").is_empty()), "left running: {:?}", self.processes(""));
        let mounts = fs::read_to_string("/proc/self/mounts").expect("a list of mounts");
        assert!(!mounts.contains(&self.room.path("state").display().to_string()), "left mounted: {mounts}");
        let is_deaf = || TcpStream::connect(("127.0.0.1", self.port)).is_err();
        assert!(eventually(is_deaf), "somebody still listens");
    }
}

fn each_user_acts_under_their_own_name() -> Result<(), Failed> {
    let world = World::new();
    for user in ["ann", "bob"] {
        let file = world.local(user, &format!("by {user}"));
        world.done(user, &format!("mkdir sub; put {file} note.txt; put {file} sub\\inner.txt"));
    }
    for user in ["ann", "bob"] {
        assert_eq!(world.there(&format!("{user}/note.txt")), Some(format!("by {user}")));
        assert_eq!(world.there(&format!("{user}/sub/inner.txt")), Some(format!("by {user}")));
        let got = world.room.path("got");
        world.done(user, &format!("get note.txt {}", got.display()));
        assert_eq!(fs::read_to_string(&got)?, format!("by {user}"));
        world.done(user, "rename note.txt renamed.txt; del sub\\inner.txt; rmdir sub");
        assert_eq!(world.there(&format!("{user}/renamed.txt")), Some(format!("by {user}")));
    }
    // Whatever is written, nobody leaves their folder.
    world.smb("bob", "del ..\\ann\\renamed.txt");
    world.smb("bob", "cd ..\\ann; del renamed.txt");
    assert_eq!(world.there("ann/renamed.txt").as_deref(), Some("by ann"));
    let log = fs::read_to_string(world.room.path("access.log"))?;
    for (user, other) in [("ann", "bob"), ("bob", "ann")] {
        let own: Vec<_> = log.lines().filter(|line| line.contains(&format!(" - {user} ["))).collect();
        assert!(own.iter().any(|line| line.contains(&format!("\"PUT /{user}/note.txt"))), "{log}");
        assert!(!own.iter().any(|line| line.contains(&format!(" /{other}/"))), "{log}");
    }
    let known = |line: &&str| line.contains(" - ann [") || line.contains(" - bob [") || line.contains("\" 401 ");
    assert!(log.lines().all(|line| known(&line)), "{log}");
    let status = {
        let mut command = world.room.command(HAUL);
        command.args(["gateway", "status"]);
        world.place(&mut command);
        common::printed(&common::output(command))
    };
    assert!(status.contains("ann: enrolled as ann, mounted"), "{status}");
    for secret in ["ann's", "smb ann"] {
        assert!(!world.said().contains(secret), "{}", world.said());
        for pid in world.processes("") {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&line).contains(secret));
        }
    }
    Ok(())
}

fn user_without_enrolment_is_refused() -> Result<(), Failed> {
    let world = World::new();
    let refused = |user: &str, password: &str| {
        let output = common::output(world.smbclient(user, password, "ls"));
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.status.success() && said.contains("NT_STATUS"), "{user}: {said}");
        said
    };
    // SMB has no place for a text, so clients show a status, and only the gateway's log says more.
    assert!(refused("carol", "x").contains("session setup failed: NT_STATUS_LOGON_FAILURE"));
    world.wait_for("SMB login of carol refused: not enrolled; run `haul gateway enroll carol`");
    refused("ann", "ann's");
    world.wait_for("SMB login of ann refused: NT_STATUS_WRONG_PASSWORD");
    refused("", "");
    // An SMB password alone is no account at the server.
    fs::remove_file(world.room.path("state/vault/bob.sealed"))?;
    assert!(refused("bob", "smb bob").contains("tree connect failed: NT_STATUS_ACCESS_DENIED"));
    world.wait_for("bob refused: not enrolled; run `haul gateway enroll bob`");
    // Nor is another user's record.
    fs::copy(world.room.path("state/vault/ann.sealed"), world.room.path("state/vault/bob.sealed"))?;
    refused("bob", "smb bob");
    world.wait_for("bob refused: the enrolment of bob cannot be opened");
    // Nor a password that the server refuses.
    assert!(world.enroll(&["bob"], "wrong\nsmb bob\n").status.success());
    refused("bob", "smb bob");
    assert!(!world.has_mount("bob") && world.done("ann", "ls").contains("blocks"));
    let log = fs::read_to_string(world.room.path("access.log"))?;
    assert!(!log.contains(" - bob ["), "{log}");
    Ok(())
}

/// smbclient opens files so that others may read and write, but not delete them.
fn open_file_is_kept_from_a_second_client() -> Result<(), Failed> {
    let world = World::new();
    let fifo = world.room.path("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU)?;
    let mut first = world.smbclient("ann", "smb ann", &format!("put {} held.txt", fifo.display()));
    let mut first = Running::start({
        first.stdout(Stdio::null()).stderr(Stdio::null());
        first
    });
    let mut writer = File::options().write(true).open(&fifo)?;
    writer.write_all(b"first half, ")?;
    assert!(eventually(|| text(&world.smb("ann", "ls").stdout).contains("held.txt")), "{}", world.said());
    for commands in ["del held.txt", "rename held.txt other.txt"] {
        let said = text(&world.smb("ann", commands).stdout);
        assert!(said.contains("NT_STATUS_SHARING_VIOLATION"), "{commands}: {said}");
    }
    writer.write_all(b"second half")?;
    drop(writer);
    assert!(first.status().success());
    assert_eq!(world.there("ann/held.txt").as_deref(), Some("first half, second half"));
    world.done("ann", "del held.txt");
    assert_eq!(world.there("ann/held.txt"), None);
    // Nobody is allowed to keep data to themselves, which others may change behind Samba's back.
    let conf = fs::read_to_string(world.room.path("state/samba/smb.conf"))?;
    for line in ["oplocks = no", "level2 oplocks = no", "smb2 leases = no", "durable handles = no"] {
        assert!(conf.lines().any(|found| found == line), "{conf}");
    }
    // So a change at the server is seen.
    let (old, got) = (world.local("old", "old"), world.room.path("got"));
    world.done("ann", &format!("put {old} changing.txt"));
    fs::write(world.room.path("there/ann/changing.txt"), "new, and longer")?;
    let is_new = || {
        world.done("ann", &format!("get changing.txt {}", got.display()));
        fs::read_to_string(&got).is_ok_and(|text| text == "new, and longer")
    };
    assert!(eventually(is_new), "{}", world.said());
    Ok(())
}

fn names_match_in_any_case() -> Result<(), Failed> {
    let world = World::new();
    let file = world.local("file", "content");
    world.done("ann", &format!("mkdir Folder; put {file} Folder\\ReadMe.TXT"));
    let got = world.room.path("got");
    world.done("ann", &format!("get FOLDER\\readme.txt {}", got.display()));
    assert_eq!(fs::read_to_string(&got)?, "content");
    world.done("ann", &format!("put {file} folder\\README.txt"));
    let names: Vec<_> =
        fs::read_dir(world.room.path("there/ann/Folder"))?.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["ReadMe.TXT"], "one file, under the name that it was given");
    Ok(())
}

fn taken_port_and_state_folder_are_named() -> Result<(), Failed> {
    let world = World::new();
    for (state, port, expected) in
        [("second", world.port, "cannot listen on 127.0.0.1:"), ("state", free_port(), "another gateway runs")]
    {
        let mut command = world.room.command(HAUL);
        command.args(["gateway", "smb", "--upstream", &world.upstream, "--share", "files", "--address", "127.0.0.1"]);
        command.args(["--port", &port.to_string(), "--state"]).arg(world.room.path(state));
        command.arg("--key").arg(world.room.path("key"));
        let said = common::one_sentence(&common::output(command), 1);
        assert!(said.contains(expected), "{said}");
    }
    world.done("ann", "ls");
    fs::remove_dir_all(world.room.path("second"))?;
    Ok(())
}

fn dead_mount_is_replaced() -> Result<(), Failed> {
    let world = World::new();
    let file = world.local("file", "content");
    world.done("ann", &format!("put {file} a.txt"));
    world.done("bob", "ls");
    // A client in the middle of an upload.
    let fifo = world.room.path("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU)?;
    let mut uploads = world.smbclient("ann", "smb ann", &format!("put {} half.txt", fifo.display()));
    let mut uploads = Running::start({
        uploads.stdout(Stdio::null()).stderr(Stdio::null());
        uploads
    });
    let mut writer = File::options().write(true).open(&fifo)?;
    writer.write_all(b"half")?;
    assert!(eventually(|| text(&world.smb("ann", "ls").stdout).contains("half.txt")), "{}", world.said());
    let before = world.processes("mounts/ann");
    let others = world.processes("mounts/bob");
    assert!(before.len() == 1 && others.len() == 1, "{before:?} {others:?}");
    kill(Pid::from_raw(before[0]), Signal::SIGKILL)?;
    world.wait_for("the mount of ann has ended");
    // Its session is ended with it, so the client notices. Then it works again, in a new mount.
    world.done("ann", &format!("put {file} b.txt"));
    assert_eq!(
        (world.there("ann/a.txt").as_deref(), world.there("ann/b.txt").as_deref()),
        (Some("content"), Some("content"))
    );
    let after = world.processes("mounts/ann");
    assert!(after.len() == 1 && after != before, "{after:?}");
    assert_eq!(world.processes("mounts/bob"), others, "another user's goes on");
    let _ = writer.write_all(b" and half");
    drop(writer);
    assert!(!uploads.status().success(), "it has noticed");
    assert_eq!(world.there("ann/half.txt"), None, "no half file");
    Ok(())
}

fn mount_ends_when_idle_and_when_revoked() -> Result<(), Failed> {
    let world = World::with(&["--idle", "1s"]);
    let file = world.local("file", "content");
    world.done("ann", &format!("put {file} a.txt"));
    assert!(eventually(|| !world.has_mount("ann")), "{}", world.said());
    world.done("ann", &format!("put {file} b.txt"));
    assert_eq!(world.there("ann/b.txt").as_deref(), Some("content"));
    // A session that is there keeps the mount, until the enrolment goes.
    let fifo = world.room.path("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU)?;
    let mut held = world.smbclient("bob", "smb bob", &format!("put {} held.txt", fifo.display()));
    let _held = Running::start({
        held.stdout(Stdio::null()).stderr(Stdio::null());
        held
    });
    let _writer = File::options().write(true).open(&fifo)?;
    assert!(eventually(|| world.has_mount("bob")));
    thread::sleep(std::time::Duration::from_secs(4));
    assert!(world.has_mount("bob"), "it is in use\n{}", world.said());
    let removed = world.enroll(&["--remove", "bob"], "");
    assert!(removed.status.success(), "{}", text(&removed.stderr));
    assert!(eventually(|| !world.has_mount("bob")), "{}", world.said());
    assert!(!world.smb("bob", "ls").status.success());
    // A user who is enrolled while it runs can come in.
    fs::create_dir(world.room.path("there/bob/.keep"))?;
    assert!(world.enroll(&["dora", "--account", "bob"], "bob's\nsmb dora\n").status.success());
    assert!(world.done("dora", "ls").contains(".keep"));
    Ok(())
}

fn nothing_is_left() -> Result<(), Failed> {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL] {
        let mut world = World::new();
        let file = world.local("file", "content");
        world.done("ann", &format!("put {file} a.txt"));
        world.done("bob", "ls");
        let mut gateway = world.gateway.take().ok_or("it runs")?;
        gateway.send(signal);
        let status = gateway.status();
        assert_eq!(status.success(), signal != Signal::SIGKILL, "{status}\n{}", world.said());
        world.assert_nothing_is_left();
        assert_eq!(world.there("ann/a.txt").as_deref(), Some("content"));
        // And it starts again.
        if signal == Signal::SIGKILL {
            world.said.lock().unwrap().clear();
            world.start(&[]);
            assert!(world.done("ann", "ls").contains("a.txt"));
        }
    }
    Ok(())
}

fn one_user_is_served_without_root() -> Result<(), Failed> {
    let world = World::of(&["ann"], Some(NOBODY), &[]);
    let file = world.local("file", "content");
    world.done("ann", &format!("put {file} a.txt; rename a.txt b.txt"));
    assert_eq!(world.there("ann/b.txt").as_deref(), Some("content"));
    for pid in world.processes("") {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let is_nobody = |line: &str| line.split_whitespace().skip(1).all(|uid| uid == NOBODY.to_string());
        assert!(status.lines().filter(|line| line.starts_with("Uid:")).all(is_nobody), "{status}");
    }
    let log = fs::read_to_string(world.room.path("access.log"))?;
    assert!(log.lines().any(|line| line.contains(" - ann [") && line.contains("\"PUT /ann/a.txt")), "{log}");
    // Nothing would keep a second user's processes out of the first one's mount.
    assert!(world.enroll(&["bob"], "bob's\nsmb bob\n").status.success());
    assert!(text(&world.smb("bob", "ls").stdout).contains("NT_STATUS_ACCESS_DENIED"));
    world.wait_for("without root all users would have one uid");
    let mut command = world.haul();
    command.args(["gateway", "smb", "--upstream", &world.upstream, "--share", "files", "--address", "127.0.0.1"]);
    command.arg("--state").arg(world.room.path("second")).arg("--key").arg(world.room.path("key"));
    let said = common::one_sentence(&common::output(command), 1);
    assert!(said.contains("127.0.0.1:445: ports below 1024 need root"), "{said}");
    Ok(())
}
