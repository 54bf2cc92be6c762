//! The arguments of most commands: URLs on one server, and how to connect.

use std::error::Error;

use dav::RemotePath;

use super::{
    options::Way,
    place::{one_server, remotes},
    report::Report,
    session::Session,
};

#[derive(clap::Args)]
pub(super) struct Named {
    /// Files or folders, all on one server
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
    #[command(flatten)]
    pub(super) way: Way,
}

impl Named {
    /// Opens the session; returns it with the paths and the command's report.
    pub(super) async fn open(
        &self,
        command: &'static str,
    ) -> Result<(Session, Vec<RemotePath>, Report), Box<dyn Error>> {
        let urls = remotes(&self.urls)?;
        let session = Session::brief(one_server(&urls)?, &self.way).await?;
        let paths = urls.into_iter().map(|url| url.path).collect();
        Ok((session, paths, Report::new(command, self.way.json.as_deref())))
    }
}
