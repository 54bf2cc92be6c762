//! What most commands are told: what on a server they are about, and the way there.

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
    /// What on the server; all on one
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
    #[command(flatten)]
    pub(super) way: Way,
}

impl Named {
    /// The server, what on it is meant, and the command's report.
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
