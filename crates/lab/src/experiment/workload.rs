//! The work of a workload, from its kind and its amounts.

use std::sync::Arc;

use toml::Spanned;

use super::{
    file::{Amounts, CommandTable, CommandText, Kind, Sizes},
    mistake::Fault,
};
use crate::work::{Chore, ChoreCommand, Job, Page, Visit, Work};

/// The work of a kind with these amounts; each amount that the kind has must be given, and no other.
pub(super) fn work<T>(kind: Kind, mut amounts: Amounts, whole: &Spanned<T>) -> Result<Work, Fault> {
    let missing = |key: &str| Fault::new(whole.span(), format!("missing key `{key}`"));
    let count = |amount: &mut Option<Spanned<u32>>, key: &str| match amount.take() {
        Some(count) if *count.get_ref() == 0 => Err(Fault::new(count.span(), format!("`{key}` must be at least 1"))),
        Some(count) => Ok(count.into_inner()),
        None => Err(missing(key)),
    };
    let sizes = |amount: &mut Option<Spanned<Sizes>>, key: &str| {
        let amount = amount.take().ok_or_else(|| missing(key))?;
        let span = amount.span();
        let sizes = match amount.into_inner() {
            Sizes::One(size) => vec![size],
            Sizes::InTurn(sizes) => sizes,
        };
        if sizes.is_empty() { Err(Fault::new(span, format!("`{key}` must have at least one size"))) } else { Ok(sizes) }
    };
    let size = |amount: &mut Option<Spanned<Sizes>>| {
        let span = amount.as_ref().map(Spanned::span);
        match sizes(amount, "size")?[..] {
            [size] => Ok(size),
            _ => Err(Fault::new(span.unwrap_or_else(|| whole.span()), "this kind of workload takes one size")),
        }
    };
    let folders_and_files = |amounts: &mut Amounts| {
        let span = amounts.folders.as_ref().map(Spanned::span);
        let (folders, files) = (count(&mut amounts.folders, "folders")?, count(&mut amounts.files, "files")?);
        if folders > files {
            let message = "more folders than files; each folder needs a file".to_owned();
            return Err(Fault::new(span.unwrap_or_else(|| whole.span()), message));
        }
        Ok((folders, files))
    };
    let work = match kind {
        Kind::Upload => Work::Upload { files: count(&mut amounts.files, "files")?, size: size(&mut amounts.size)? },
        Kind::Tree => {
            let (folders, files) = folders_and_files(&mut amounts)?;
            Work::Tree { folders, files, size: size(&mut amounts.size)? }
        }
        Kind::Download => {
            Work::Download { files: count(&mut amounts.files, "files")?, size: sizes(&mut amounts.size, "size")? }
        }
        Kind::Page => Work::Page {
            objects: sizes(&mut amounts.objects, "objects")?,
            idle: amounts.idle.take().map(Spanned::into_inner).ok_or_else(|| missing("idle"))?,
            size: size(&mut amounts.size)?,
        },
        Kind::Load => {
            let name = amounts.page.take().ok_or_else(|| missing("page"))?;
            let page = Page::find(name.get_ref()).map_err(|error| Fault::new(name.span(), error.to_string()))?;
            match amounts.warm.take().filter(|warm| *warm.get_ref()) {
                None => Work::Load { page },
                Some(warm) => {
                    let nothing =
                        || Fault::new(warm.span(), "a warm cache has the whole page, so nothing is requested");
                    Work::Load { page: page.again().ok_or_else(nothing)? }
                }
            }
        }
        Kind::Visits => {
            let (files, at_once) = (count(&mut amounts.files, "files")?, count(&mut amounts.at_once, "at-once")?);
            let size = size(&mut amounts.size)?.as_bytes();
            Work::Load { page: Page(Arc::new(page::replay::visits(files, at_once, size)), Visit::First) }
        }
        Kind::List => Work::List { entries: count(&mut amounts.entries, "entries")? },
        Kind::LookUp => Work::LookUp { times: count(&mut amounts.times, "times")? },
        Kind::Edit => Work::Edit { times: count(&mut amounts.times, "times")?, size: size(&mut amounts.size)? },
        Kind::Chore => {
            let job = amounts.job.take().ok_or_else(|| missing("job"))?.into_inner();
            let warm = amounts.warm.take();
            if let Some(warm) = warm.as_ref().filter(|warm| *warm.get_ref() && job.writes()) {
                return Err(Fault::new(warm.span(), "only a job that reads can be done again"));
            }
            let (folders, files) = folders_and_files(&mut amounts)?;
            let warm = warm.is_some_and(Spanned::into_inner);
            let command = command(amounts.command.take_if(|_| job == Job::Command))?;
            if job == Job::Command && command.is_none() {
                return Err(missing("command"));
            }
            Work::Chore(Chore { job, folders, files, size: size(&mut amounts.size)?, warm, command })
        }
    };
    amounts.check_none_left().map(|()| work)
}

/// The command of a chore, which has no placeholders but its own.
fn command(text: Option<Spanned<CommandText>>) -> Result<Option<Box<ChoreCommand>>, Fault> {
    let Some(text) = text else { return Ok(None) };
    let span = text.span();
    let (run, setup, verify) = match text.into_inner() {
        CommandText::Run(run) => (run, None, None),
        CommandText::Table(CommandTable { run, setup, verify }) => (run, setup, verify),
    };
    match ChoreCommand::new(&run, setup.as_deref(), verify.as_deref()) {
        Ok(command) => Ok(Some(Box::new(command))),
        Err(why) => Err(Fault::new(span, why)),
    }
}

impl Amounts {
    /// Fails for a key that the kind of workload does not have.
    fn check_none_left(self) -> Result<(), Fault> {
        let Some((key, span)) = self.first_left() else { return Ok(()) };
        Err(Fault::new(span, format!("key `{key}` does not apply to this kind of workload")))
    }

    fn first_left(self) -> Option<(&'static str, std::ops::Range<usize>)> {
        let counts = [
            ("folders", self.folders),
            ("files", self.files),
            ("entries", self.entries),
            ("times", self.times),
            ("at-once", self.at_once),
        ];
        let counted = counts.into_iter().find_map(|(key, count)| Some((key, count?.span())));
        counted
            .or_else(|| Some(("size", self.size?.span())))
            .or_else(|| Some(("objects", self.objects?.span())))
            .or_else(|| Some(("idle", self.idle?.span())))
            .or_else(|| Some(("page", self.page?.span())))
            .or_else(|| Some(("job", self.job?.span())))
            .or_else(|| Some(("warm", self.warm?.span())))
            .or_else(|| Some(("command", self.command?.span())))
    }

    /// These amounts where given, else those of the whole race.
    pub(super) fn or(self, whole: Self) -> Self {
        Self {
            folders: self.folders.or(whole.folders),
            files: self.files.or(whole.files),
            size: self.size.or(whole.size),
            entries: self.entries.or(whole.entries),
            times: self.times.or(whole.times),
            objects: self.objects.or(whole.objects),
            idle: self.idle.or(whole.idle),
            page: self.page.or(whole.page),
            at_once: self.at_once.or(whole.at_once),
            job: self.job.or(whole.job),
            warm: self.warm.or(whole.warm),
            command: self.command.or(whole.command),
        }
    }
}
