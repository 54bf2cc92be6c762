//! Body files beside a spec or a HAR. Such a file may come from anyone, so it reads nothing outside its folder.

use std::{
    fs,
    io::{self, Read as _},
    path::{Component, Path},
};

use bytes::Bytes;

/// Reads the file `name` below `folder`, of at most `most` bytes. Refuses one that is, or leads, outside the folder. The
/// error is a part of a sentence.
pub(crate) fn read(folder: &Path, name: &str, most: u64) -> Result<Bytes, String> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let shown = || name.chars().take(80).collect::<String>().replace(char::is_control, " ");
    let outside = || format!("the body file `{}` is not below {}", shown(), folder.display());
    if name.is_empty() || !inside {
        return Err(outside());
    }
    let path = folder.join(name);
    let failed = |error: io::Error| format!("cannot read the body file {}: {error}", path.display());
    // A symbolic link may lead anywhere.
    let (target, root) = (path.canonicalize().map_err(failed)?, folder.canonicalize().map_err(failed)?);
    if !target.starts_with(&root) {
        return Err(format!("{}: it is a symbolic link to {}", outside(), target.display()));
    }
    let mut bytes = Vec::new();
    let read = fs::metadata(&target).and_then(|is| {
        // Opening a pipe would wait for its writer.
        let regular = if is.is_file() { Ok(()) } else { Err(io::Error::other("not a regular file")) };
        regular.and_then(|()| fs::File::open(&target))?.take(most.saturating_add(1)).read_to_end(&mut bytes)
    });
    read.map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err("the bodies together are larger than 1 GiB".to_owned());
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_outside_the_folder_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("page");
        fs::create_dir_all(folder.join("bodies")).unwrap();
        fs::write(place.path().join("secret"), "secret").unwrap();
        fs::write(folder.join("bodies/a"), "body").unwrap();
        symlink("bodies/a", folder.join("alias")).unwrap();
        symlink("../secret", folder.join("link")).unwrap();
        symlink("..", folder.join("up")).unwrap();
        let read = |name: &str| super::read(&folder, name, 4);
        assert_eq!(read("bodies/a").unwrap(), "body");
        assert_eq!(read("alias").unwrap(), "body", "a link within the folder");
        for name in ["link", "up/secret"] {
            let said = read(name).unwrap_err();
            assert!(said.contains("is a symbolic link to") && said.contains("secret"), "{said}");
        }
        for name in ["../secret", "", "/etc/passwd", "./bodies/a"] {
            assert!(read(name).unwrap_err().contains("is not below"), "{name}");
        }
        assert!(read("none").unwrap_err().contains("cannot read"));
        assert!(read("bodies").unwrap_err().contains("not a regular file"));
        assert!(super::read(&folder, "bodies/a", 3).unwrap_err().contains("larger than"));
    }
}
