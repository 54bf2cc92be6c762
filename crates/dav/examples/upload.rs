//! Uploads a folder: `cargo run -p longhaul-dav --example upload -- FOLDER http://127.0.0.1:8080/target/`
//!
//! For a server to try it with, run `haul serve --listen 127.0.0.1:8080 FOLDER`.

use std::{env, error::Error, path::PathBuf, sync::Arc};

use dav::{
    Dav, RemotePath,
    transfer::{Event, Options, Watch, upload},
};
use haul_http::{Client, Origin, Settings, auth::Authenticator};
use http::Uri;
use tokio::sync::Notify;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (Some(source), Some(url)) = (env::args().nth(1), env::args().nth(2)) else {
        return Err("usage: upload FOLDER URL".into());
    };
    upload_folder(source.into(), &url.parse()?).await
}

async fn upload_folder(source: PathBuf, url: &Uri) -> Result<(), Box<dyn Error>> {
    let dav = Dav::new(Client::new(Settings::default(), Authenticator::default())?, Origin::of(url)?);
    let target = RemotePath::from_url_path(url.path())?;
    let options = Options { recursive: true, ..Options::default() };
    let watch: Watch = Arc::new(|event: Event<'_>| match event {
        Event::Done { path, bytes } => println!("{bytes:>12} {path}"),
        Event::Failed { path, why } => eprintln!("{path}: {why}"),
        Event::Note(note) => eprintln!("{note}"),
        _ => {}
    });
    // A program that handles Ctrl-C would notify this.
    let stop = Notify::new();
    let summary = upload(&dav, &[source], &target, &options, &stop, &watch).await?;
    println!("{} files, {} bytes in {:?}; {} failed", summary.files, summary.bytes, summary.took, summary.failed.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{error::Error, fs};

    #[tokio::test]
    async fn example_uploads_a_folder() -> Result<(), Box<dyn Error>> {
        let (local, remote) = (tempfile::tempdir()?, tempfile::tempdir()?);
        fs::create_dir(local.path().join("photos"))?;
        fs::write(local.path().join("photos/a.txt"), "content")?;
        let listen = vec![([127, 0, 0, 1], 0).into()];
        let server =
            serve::Server::bind(serve::Config { root: remote.path().into(), listen, ..serve::Config::default() })?;
        let url = format!("http://{}/", server.local_addr()).parse()?;
        tokio::spawn(server.run(std::future::pending()));
        super::upload_folder(local.path().join("photos"), &url).await?;
        assert_eq!(fs::read(remote.path().join("photos/a.txt"))?, b"content");
        Ok(())
    }
}
