//! The arguments of most commands: URLs on one server, and how to connect.

use std::error::Error;

use dav::RemotePath;

use crate::files::{
    options::ConnectionOptions,
    results::Results,
    session::Session,
    session::location::{Remote, remote_locations, remote_patterns, single_server},
    session::selection::{Selected, select},
};

#[derive(clap::Args)]
pub(crate) struct UrlArgs {
    /// Files or folders, all on one server
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
    /// Print each error, even if many files fail for the same reason
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionOptions,
}

impl UrlArgs {
    /// Opens the session; returns it with what exists of the paths and matches the patterns, and the command's report.
    pub(crate) async fn select(
        &self,
        command: &'static str,
    ) -> Result<(Session, Vec<Selected>, Results), Box<dyn Error>> {
        let (session, urls, mut report) = self.session(command, remote_patterns(&self.urls)?).await?;
        let selected = select(&session, &urls, &mut report).await;
        Ok((session, selected, report))
    }

    /// The same for names that may be new, without wildcards.
    pub(crate) async fn open(
        &self,
        command: &'static str,
    ) -> Result<(Session, Vec<RemotePath>, Results), Box<dyn Error>> {
        let (session, urls, report) = self.session(command, remote_locations(&self.urls)?).await?;
        Ok((session, urls.into_iter().map(|url| url.path).collect(), report))
    }

    async fn session(
        &self,
        command: &'static str,
        urls: Vec<Remote>,
    ) -> Result<(Session, Vec<Remote>, Results), Box<dyn Error>> {
        let session = Session::brief(single_server(&urls)?, &self.connection, self.verbose).await?;
        let report = Results::new(command, self.connection.json.as_deref());
        Ok((session, urls, report.listing_each_failure(self.verbose)))
    }
}
