//! Carries out a plan: starts its steps, hands it their outcomes, and reports its events.

use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use tokio::sync::Notify;

use super::{Upload, bulk::Small, file::SendMode, optimistic::Optimistic, target::Placed};
use crate::{
    If, terminal_safe,
    transfer::{
        Event, INTERRUPTED, SkipReason, Summary,
        plan::{Known, Outcome, Plan, PlanEvent, Sent, Step},
        source_file::SourceFile,
        synced_versions::SyncedVersions,
        temporary_files::old_since,
    },
};

impl Upload<'_> {
    /// Uploads the files of an outline, given what is known of its top folders, until it is stopped.
    pub(super) async fn execute<'a>(
        &'a self,
        (mut outline, tops): Placed,
        first: Optimistic<'a>,
        (bulk_upload, records): (bool, SyncedVersions),
        stop: &Notify,
        summary: &mut Summary,
    ) {
        let (options, watch) = (self.options, self.watch);
        self.reject_colliding_names(&mut outline, &tops).await;
        for skipped in &outline.skipped {
            watch(Event::Note(skipped));
        }
        for (path, why) in &outline.left_out {
            watch(Event::Failed { path, why });
            summary.failed.push((path.clone(), why.clone()));
        }
        let bytes = outline.files.iter().map(|file| file.length).sum();
        watch(Event::Found { files: outline.files.len() as u64, bytes });

        let known = Known { bulk_upload, times: self.times(), records, old_since: old_since(options) };
        let mut plan =
            Plan::new(outline, options.clone(), tops, first.files(), known).with_lookups_behind(self.dav.pipelines());
        let stopped = tokio::select! {
            biased;
            () = stop.notified() => true,
            () = self.held_locks.refresh() => false,
            () = self.run(&mut plan, first, summary) => false,
        };
        self.clean_up().await;
        if stopped {
            let blind = plan.end();
            self.report_events(&mut plan, summary);
            watch(Event::Note(INTERRUPTED));
            if blind > 0 {
                watch(Event::Note(&format!("{blind} of the completed files were not yet verified")));
            }
        }
        plan.records().save(options, stopped, watch);
        if plan.skips_deletions() {
            watch(Event::Note("deletions on the server skipped because of earlier errors"));
        }
    }

    async fn run<'a>(&'a self, plan: &mut Plan, first: Optimistic<'a>, summary: &mut Summary) {
        let (mut running, outcomes) = (first.in_flight, first.outcomes);
        for outcome in outcomes {
            plan.take(outcome);
        }
        loop {
            self.report_events(plan, summary);
            while let Some(step) = plan.next() {
                running.push(self.start_step(step, plan));
            }
            self.report_events(plan, summary);
            match running.next().await {
                Some(outcome) => plan.take(outcome),
                None => return,
            }
        }
    }

    /// Starts a step. One arm per step, which only copies what its future needs.
    fn start_step(&self, step: Step, plan: &Plan) -> BoxFuture<'_, Outcome> {
        let (dry, outline) = (self.options.dry_run, plan.outline());
        let looks = matches!(step, Step::UploadAndLook(..));
        match step {
            Step::List(folder) => {
                let path = outline.folders[folder].path.clone();
                async move { Outcome::Listed(folder, self.list(&path).await) }.boxed()
            }
            Step::Make(folder) if dry => async move { Outcome::Made(folder, Ok(true)) }.boxed(),
            Step::Make(folder) => {
                let (path, alone) = (outline.folders[folder].path.clone(), plan.makes_alone(folder));
                async move { Outcome::Made(folder, self.create_folder(&path, alone).await) }.boxed()
            }
            Step::Confirm(folder) => {
                let path = outline.folders[folder].path.clone();
                let look = async move { self.dav.stat(&path, self.properties).await };
                look.map(move |found| Outcome::Confirmed(folder, found.map(|found| found.is_some()))).boxed()
            }
            Step::Fill(folder, files) => {
                let path = outline.folders[folder].path.clone();
                let small = |file: usize| {
                    let facts = &outline.files[file];
                    let SourceFile::Local(local) = &facts.origin else { return None };
                    let (local, name) = (local.clone(), facts.name.clone());
                    Some(Small { file, local, name, length: facts.length, modified: facts.modified })
                };
                // Of another server's files there are none: see `relay`.
                let files: Vec<Small> = files.into_iter().filter_map(small).collect();
                async move {
                    let filled = match &self.nextcloud {
                        Some(nextcloud) => self.create_filled_folder(nextcloud, &path, files).await,
                        None => None,
                    };
                    match filled {
                        Some(filled) => Outcome::Filled(folder, filled),
                        None => Outcome::Made(folder, self.create_folder(&path, true).await),
                    }
                }
                .boxed()
            }
            Step::Check(folder, files) => {
                let path = outline.folders[folder].path.clone();
                async move { Outcome::Checked(files, self.list(&path).await.map(Option::unwrap_or_default)) }.boxed()
            }
            Step::Look(file) => {
                let facts = &outline.files[file];
                let (name, path) = (facts.name.clone(), facts.path(&outline.folders));
                async move { Outcome::Checked(vec![file], self.look(name, path).await) }.boxed()
            }
            Step::Compare(file, there) => {
                let facts = &outline.files[file];
                let (origin, length, is_sent) = (facts.origin.clone(), facts.length, plan.is_sent(file));
                let path = facts.path(&outline.folders);
                async move {
                    let same = match path {
                        Ok(path) => self.is_same((&origin, length), (&path, &there), is_sent).await,
                        Err(error) => Err(error),
                    };
                    Outcome::Compared(file, same)
                }
                .boxed()
            }
            Step::Replace(folder, _) if dry => async move { Outcome::Replaced(folder, Ok(())) }.boxed(),
            Step::Replace(folder, precondition) => {
                let path = outline.folders[folder].path.clone();
                async move { Outcome::Replaced(folder, self.replace_by_folder(&path, &precondition).await) }.boxed()
            }
            Step::CollectDeletable(path, scope) => async move {
                let deletable = self.deletable_in(path.clone(), scope).await;
                Outcome::CollectedDeletable(path, deletable)
            }
            .boxed(),
            Step::Sweep(path, precondition) => async move {
                let swept = self.dav.delete(&path, &precondition, &If::default()).await;
                Outcome::Swept(path, swept.map(drop))
            }
            .boxed(),
            Step::Rename(from, thing, old) => self.rename_node(from, thing, old, plan.path_of(thing)).boxed(),
            Step::DeleteTwin(path, precondition, twin) => self.delete_if_distinct(path, precondition, twin).boxed(),
            Step::Delete(path, precondition) => self.delete(path, precondition, true).boxed(),
            Step::DeleteAlone(path, precondition) => self.delete(path, precondition, false).boxed(),
            Step::Remaining(folder, paths) => self.remaining(folder, paths).boxed(),
            Step::Upload(file, before) | Step::UploadAndLook(file, before) => {
                let facts = &outline.files[file];
                let (origin, length, modified) = (facts.origin.clone(), facts.length, facts.modified);
                let mode = SendMode { looks, alone: plan.goes_alone(file) };
                match facts.path(&outline.folders) {
                    Err(error) => async move { Outcome::Uploaded(file, Err(error)) }.boxed(),
                    Ok(_) if dry => async move {
                        Outcome::Uploaded(file, Ok(Sent { bytes: length, etag: None, compared: false, seen: None }))
                    }
                    .boxed(),
                    Ok(path) => async move {
                        Outcome::Uploaded(file, self.file(&origin, &path, length, modified, before, mode).await)
                    }
                    .boxed(),
                }
            }
        }
    }

    /// Reports and counts the plan's events.
    fn report_events(&self, plan: &mut Plan, summary: &mut Summary) {
        for event in plan.take_events() {
            let outline = plan.outline();
            let name = |file: usize| outline.files[file].origin.to_string();
            match event {
                PlanEvent::HidesFiles => (self.watch)(Event::Note(
                    "the server does not list names that begin with a dot: uploads check each of them by itself, and \
                     none is downloaded or deleted",
                )),
                PlanEvent::Done(file) => {
                    let bytes = outline.files[file].length;
                    summary.files += 1;
                    summary.bytes += bytes;
                    (self.watch)(Event::Done { path: &name(file), bytes });
                }
                PlanEvent::Skipped(file) => {
                    summary.skipped += 1;
                    let (path, bytes, why) = (name(file), outline.files[file].length, SkipReason::Unchanged);
                    (self.watch)(Event::Skipped { path: &path, bytes, why });
                }
                PlanEvent::Kept(file, why) => {
                    summary.skipped += 1;
                    (self.watch)(Event::Skipped { path: &name(file), bytes: outline.files[file].length, why });
                }
                PlanEvent::Made(folder) => {
                    summary.folders += 1;
                    (self.watch)(Event::Made { path: &outline.folders[folder].path.to_string() });
                }
                PlanEvent::Swept(path) => {
                    (self.watch)(Event::Note(&format!("deleted {path}, a temporary file of an earlier run")));
                }
                PlanEvent::Renamed(from, to) => {
                    let done = if self.options.dry_run { "would rename" } else { "renamed" };
                    (self.watch)(Event::Note(&format!("{done} {from} to {}", terminal_safe(&to))));
                }
                PlanEvent::Deleted(path) => {
                    summary.deleted += 1;
                    (self.watch)(Event::Deleted { path: &path.to_string() });
                }
                PlanEvent::Failed(path, why) => {
                    (self.watch)(Event::Failed { path: &path, why: &why });
                    summary.failed.push((path, why));
                }
            }
        }
    }
}
