//! The arguments of most commands: URLs on one server, and how to connect.

use std::error::Error;

use dav::RemotePath;

use crate::files::{
    options::ConnectionOptions,
    results::Results,
    session::Session,
    session::location::{remote_locations, single_server},
};

#[derive(clap::Args)]
pub(crate) struct UrlArgs {
    /// Files or folders, all on one server
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
    #[command(flatten)]
    pub(crate) connection: ConnectionOptions,
}

impl UrlArgs {
    /// Opens the session; returns it with the paths and the command's report.
    pub(crate) async fn open(
        &self,
        command: &'static str,
    ) -> Result<(Session, Vec<RemotePath>, Results), Box<dyn Error>> {
        let urls = remote_locations(&self.urls)?;
        let session = Session::brief(single_server(&urls)?, &self.connection).await?;
        let paths = urls.into_iter().map(|url| url.path).collect();
        Ok((session, paths, Results::new(command, self.connection.json.as_deref())))
    }
}
