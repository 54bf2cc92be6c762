//! Lists a folder: `cargo run -p longhaul-dav --example list -- http://127.0.0.1:8080/folder/`
//!
//! For a server to try it with, run `haul serve --listen 127.0.0.1:8080 FOLDER`.

use std::{env, error::Error};

use dav::{Dav, Depth, PropertySet, RemotePath};
use haul_http::{Client, Origin, Settings, auth::Authenticator};
use http::Uri;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url: Uri = env::args().nth(1).ok_or("usage: list URL")?.parse()?;
    let dav = Dav::new(Client::new(Settings::default(), Authenticator::default())?, Origin::of(&url)?);
    let folder = RemotePath::from_url_path(url.path())?.as_folder(true);
    // Each entry is printed when it arrives, however long the listing is.
    let print = |entry| match entry {
        Ok(dav::Entry { path, properties, .. }) => match properties.length {
            Some(length) => println!("{length:>12} {path}"),
            None => println!("{:>12} {path}", "-"),
        },
        Err(error) => eprintln!("skipped: {error}"),
    };
    dav.list(&folder, Depth::One, PropertySet::LISTING, print).await?;
    Ok(())
}
