//! A program of the user's own does a sample's work by its commands.
//!
//! A command with `{file}` or `{name}` runs once for each file, one after another, as in a shell loop; any other runs
//! once. A save in place is compared with the server's file before the next one begins.

use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
    process::Command,
    rc::Rc,
    time::Duration,
};

use super::{
    Contender, Failure, Parameters, Prepared, SampleSetup, custom_mount::CustomMount, io_failure, mounted::Mounted,
};
use crate::{
    custom::{
        CustomContender, Step,
        program::{self, Environment},
        template::{Template, Values},
    },
    deadline::Deadline,
    process::{Output, ProcessError, run_until_exit, wait_for_exit},
    servers::{Http, Server, USER},
    spawn::Local,
    work::{Done, Work, WorkKind},
};

/// Time limit of a teardown.
const TEARDOWN: Duration = Duration::from_secs(8);

/// Time limit of a command that prints a version.
const VERSION: Duration = Duration::from_secs(5);

/// A custom contender with its settings.
struct CustomClient {
    definition: CustomContender,
    settings: Parameters,
}

/// The contender of a definition, with these settings.
pub(crate) fn client(definition: &CustomContender, settings: &Parameters) -> Box<dyn Contender> {
    Box::new(CustomClient { definition: definition.clone(), settings: settings.clone() })
}

impl Contender for CustomClient {
    fn name(&self) -> String {
        self.definition.name().to_owned()
    }

    fn describe(&self) -> &'static str {
        "a program of the user's own"
    }

    fn is_custom(&self) -> bool {
        true
    }

    fn needs_root(&self) -> bool {
        self.definition.needs().root
    }

    fn mounts(&self) -> bool {
        self.definition.mounts()
    }

    fn signs_in(&self) -> bool {
        self.definition.signs_in()
    }

    /// Over TLS, the program chooses; without, few programs speak HTTP/2.
    fn http(&self, tls: bool) -> Http {
        if tls { Http::Two } else { Http::One }
    }

    fn unable(&self, work: &Work, server: &dyn Server, _tls: bool) -> Option<String> {
        let definition = &self.definition;
        let cannot_ask = definition.signs_in() && !server.asks();
        definition
            .needs()
            .missing()
            .map(|missing| missing.to_string())
            .or_else(|| definition.missing_program().map(|(_, program)| format!("there is no program `{program}`")))
            .or_else(|| {
                let asks = "its {netrc} needs a server that asks for a password, and";
                cannot_ask.then(|| format!("{asks} {} does not", server.name()))
            })
            .or_else(|| self.lacks_command(work))
    }

    fn settings(&self) -> Vec<(String, String)> {
        let mut settings = vec![("command".to_owned(), self.definition.describe())];
        settings.extend(self.version().map(|version| ("version".to_owned(), version)));
        settings
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        if !self.mounts() {
            let kind = sample.task.work().kind();
            let command = kind.and_then(|kind| Some((kind, self.definition.command(kind)?.clone())));
            let command = command.ok_or_else(|| Failure::Engine("it has no command for this work".to_owned()))?;
            let session = Session::start(self, sample, folder(sample))?;
            return Ok(Box::new(Working { session, command }));
        }
        let point = sample.scratch.join("mount");
        fs::create_dir_all(&point).map_err(io_failure("create", &point))?;
        // The kernel lists the mount under its canonical path.
        let point = point.canonicalize().map_err(io_failure("find", &point))?;
        let session = Rc::new(Session::start(self, sample, &point)?);
        let mount = CustomMount::new(session.clone(), point)?;
        let mounted = Mounted::new(mount, sample, 1).warmed()?;
        Ok(Box::new(OnMount { mounted: Box::new(mounted), session }))
    }
}

impl CustomClient {
    /// Why it has no command for a kind of work, if so.
    fn lacks_command(&self, work: &Work) -> Option<String> {
        let definition = &self.definition;
        let Some(kind) = work.kind() else {
            let is_chore = self.mounts() && work.chore().is_some();
            return (!is_chore).then(|| "a command does uploads, downloads, listings and saves only".to_owned());
        };
        if self.mounts() {
            return None;
        }
        let Some(command) = definition.command(kind) else {
            // Without its name, so that all contenders that lack the command are skipped for one reason.
            let key = Step::of(kind).key();
            return Some(format!(
                "no command for this kind of work; give it one with `{key} = …` or `--with 'NAME.{key}=…'`"
            ));
        };
        if kind == WorkKind::Edit && !command.has(&["file"]) {
            return Some("a command that saves in place needs {file}".to_owned());
        }
        let one_by_one = command.has(&["file", "name"]) && !command.has(&["dir"]);
        let is_tree = matches!(work, Work::Tree { .. });
        (one_by_one && is_tree).then(|| "a command for each file creates no folders; write one with {dir}".to_owned())
    }

    /// What its version command prints first.
    fn version(&self) -> Option<String> {
        let template = self.definition.step(Step::Version)?;
        let values = [("home".to_owned(), program::users_home())].into();
        let own = self.definition.environment();
        let environment = Environment { values: &values, own, scratch: Path::new("/"), trust: None, credentials: None };
        let mut command = environment.command(template);
        let output = run_until_exit(&Local, &mut command, &Deadline::for_cleanup(VERSION), "its version").ok()?;
        [output.stdout, output.stderr].concat().lines().next().map(str::to_owned)
    }
}

/// The folder on the client for the work: with the files to upload, or for those to download.
fn folder<'a>(sample: &'a SampleSetup<'a>) -> &'a Path {
    if sample.task.work().writes() { &sample.task.source } else { &sample.task.target }
}

/// The programs of one sample. Dropping it tears down.
pub(super) struct Session<'a> {
    definition: CustomContender,
    pub(super) sample: &'a SampleSetup<'a>,
    values: Values,
    is_ended: Cell<bool>,
}

impl<'a> Session<'a> {
    /// Writes the files that the commands need, and sets up.
    fn start(client: &CustomClient, sample: &'a SampleSetup<'a>, dir: &Path) -> Result<Self, Failure> {
        let CustomClient { definition, settings } = client;
        let home = program::home(sample.scratch);
        fs::create_dir_all(&home).map_err(io_failure("create", &home))?;
        let file = |name: &str| sample.scratch.join(name);
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let url = if client.mounts() { sample.server() } else { &sample.url };
        let authority = sample.certificates.map_or_else(|| file("no-ca.pem"), |made| made.ca_file.clone());
        let kind = sample.task.work().kind().map_or("chore", WorkKind::name);
        let mut values: Values = [
            ("url", url.to_owned()),
            ("dir", text(dir)),
            ("urls", text(&file("urls.txt"))),
            ("work", kind.to_owned()),
            ("address", sample.address.ip().to_string()),
            ("port", sample.address.port().to_string()),
            ("ca", text(&authority)),
            ("home", program::users_home()),
            ("config", text(&file("config"))),
            ("tmp", text(sample.scratch)),
            ("netrc", text(&home.join(".netrc"))),
            ("served", text(&sample.root.join(&sample.task.folder))),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        values.extend(settings.iter().map(|(name, value)| (name.clone(), value.to_string())));
        let session = Self { definition: definition.clone(), sample, values, is_ended: Cell::new(false) };
        session.write_files(&authority)?;
        session.step(Step::Setup, &sample.deadline)?;
        Ok(session)
    }

    fn write_files(&self, authority: &Path) -> Result<(), Failure> {
        let sample = self.sample;
        let urls: Vec<String> = sample.task.names().iter().map(|name| format!("{}{name}", sample.url)).collect();
        let urls = urls.join("\n") + "\n";
        let config = self.definition.step(Step::Config).map(|text| text.fill(&self.values));
        let (user, ip) = (USER, sample.address.ip());
        let netrc = self.definition.signs_in().then(|| format!("machine {ip} login {user} password {user}\n"));
        let plain = sample.certificates.is_none().then(String::new);
        let files = [("urls", Some(urls)), ("config", config), ("netrc", netrc)];
        let files = files.into_iter().map(|(name, text)| (PathBuf::from(&self.values[name]), text));
        for (file, text) in files.chain([(authority.to_owned(), plain)]) {
            text.map_or(Ok(()), |text| program::write_private(&file, &text)).map_err(io_failure("write", &file))?;
        }
        Ok(())
    }

    /// The command of a template, with the values of the sample and these.
    pub(super) fn command(&self, template: &Template, more: &[(&str, &str)]) -> Command {
        let mut values = self.values.clone();
        values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let environment = Environment {
            values: &values,
            own: self.definition.environment(),
            scratch: self.sample.scratch,
            trust: self.sample.certificates.map(|certificates| certificates.ca_file.as_path()),
            credentials: self.definition.signs_in().then_some((USER, USER)),
        };
        environment.command(template)
    }

    /// The template of a step, if there is one.
    pub(super) fn template(&self, step: Step) -> Option<&Template> {
        self.definition.step(step)
    }

    /// Runs a step, if there is one.
    pub(super) fn step(&self, step: Step, deadline: &Deadline) -> Result<(), Failure> {
        let Some(template) = self.template(step) else { return Ok(()) };
        let mut command = self.command(template, &[]);
        run_until_exit(self.sample.client, &mut command, deadline, &format!("its {}", step.key()))?;
        Ok(())
    }

    /// Runs the command of the work.
    fn work(&self, template: &Template, more: &[(&str, &str)]) -> Result<Output, Failure> {
        const WHAT: &str = "its command";
        let mut command = self.command(template, more);
        let (status, output) = wait_for_exit(self.sample.client, &mut command, &self.sample.deadline, WHAT)?;
        if status.success() {
            return Ok(output);
        }
        let mut said = output.last_lines();
        let has_doubts = [&output.stderr, &output.stdout].iter().any(|text| text.contains("certificate"));
        if self.sample.certificates.is_some() && has_doubts && !template.has(&["ca"]) {
            said += " (let it trust the authority in the file {ca}, or race with --plain)";
        }
        Err(ProcessError::Failed { program: WHAT.to_owned(), status, said }.into())
    }

    /// Tears down, once.
    fn end(&self) -> Result<(), Failure> {
        if self.is_ended.replace(true) {
            return Ok(());
        }
        self.step(Step::Teardown, &Deadline::for_cleanup(TEARDOWN))
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// A session whose command does the work.
struct Working<'a> {
    session: Session<'a>,
    command: (WorkKind, Template),
}

impl Prepared for Working<'_> {
    fn run(&mut self) -> Result<Done, Failure> {
        let Self { session, command: (kind, command) } = self;
        let (task, root) = (session.sample.task, session.sample.root);
        let mut done = Done { may_nest: true, ..Done::default() };
        let run = |file: &Path, name: &str| session.work(command, &[("file", &file.to_string_lossy()), ("name", name)]);
        match kind {
            WorkKind::Edit => {
                for (file, content, name) in task.writes() {
                    run(&file, &name)?;
                    task.verify_arrived(root, &name, content)?;
                }
            }
            WorkKind::Upload if command.has(&["file", "name"]) => {
                task.writes().try_for_each(|(file, _, name)| run(&file, &name).map(drop))?;
            }
            WorkKind::Download if command.has(&["file", "name"]) => {
                task.names().iter().try_for_each(|name| run(&task.target.join(name), name).map(drop))?;
            }
            WorkKind::Upload | WorkKind::Download => drop(session.work(command, &[])?),
            WorkKind::List => {
                let printed = session.work(command, &[])?.stdout;
                let listed = task.names().into_iter().filter(|name| printed.contains(name.as_str()));
                done.listing = Some(listed.collect());
            }
        }
        Ok(done)
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        self.session.step(Step::Verify, &self.session.sample.deadline)?;
        self.session.end()
    }
}

/// Work on a custom mount; fields are dropped in order.
struct OnMount<'a> {
    mounted: Box<dyn Prepared + 'a>,
    session: Rc<Session<'a>>,
}

impl Prepared for OnMount<'_> {
    fn run(&mut self) -> Result<Done, Failure> {
        self.mounted.run()
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        let Self { mounted, session } = *self;
        session.step(Step::Verify, &session.sample.deadline)?;
        mounted.finish()?;
        session.end()
    }
}
