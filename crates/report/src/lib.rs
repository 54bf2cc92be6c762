//! Results and explanations as one HTML page, which opens from disk, without a server and without a network.
//!
//! The page is a **template**, built from `web/` and embedded here: all of its script and style, and an empty place for
//! data. To make a report is to put JSON into that place. Which view of it is drawn is the script's affair, by the
//! JSON's `schema`; this room knows none of them, and so anybody's data can be shown without anything being imported
//! here.
//!
//! ```text
//! web/src/*.ts ── npm run build ──> src/template.html ─┐
//! anything that serialises, with a `schema` ───────────┴─ page ──> report.html
//! ```
//!
//! [`live`] serves such a page while there is more to come.
//!
//! **Why is the built template in the tree?** Who builds `haul` has cargo, and need not have node. `make lint` builds
//! it anew where node is, and complains if it is another.
//!
//! **What of hostile names?** A file may be called `</script><script>…`, and a server says what it likes. In JSON `<`
//! can only stand within a string, where `\u003c` is the same; with every one of them written so, nothing in the data
//! can end the element it stands in. From there the script makes text nodes of it, never markup. And if something
//! slipped through both, the page's policy runs no script but the template's own, whose hash it names, and lets nothing
//! be fetched or sent.

pub mod live;

use std::{
    io::{self, Write},
    path::Path,
};

use serde::Serialize;

/// The page without data.
const TEMPLATE: &str = include_str!("template.html");

/// The place for the data.
const PLACE: &str = r#"<script type="application/json" id="data">"#;

/// Writes the page that shows `data`, whose field `schema` says as what: `longhaul.run/1`, `longhaul.view/1`, ….
/// Fails where `data` cannot be serialised or `out` cannot be written to.
pub fn write(data: &impl Serialize, mut out: impl Write) -> io::Result<()> {
    let (before, after) = TEMPLATE.split_once(PLACE).unwrap_or((TEMPLATE, ""));
    out.write_all(before.as_bytes())?;
    out.write_all(PLACE.as_bytes())?;
    serde_json::to_writer(Harmless(&mut out), data)?;
    out.write_all(after.as_bytes())
}

/// A report that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the report to {path}: {why}; free some space or choose another folder")]
pub struct SaveError {
    path: String,
    why: io::Error,
}

/// Puts the page that shows `data` at `path`, by the rules of [`output::write`].
pub fn save(path: &Path, data: &impl Serialize) -> Result<(), SaveError> {
    output::write(path, |to| write(data, to)).map_err(|why| SaveError { path: path.display().to_string(), why })
}

/// The page that shows `data`: see [`write()`].
pub fn page(data: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut page = Vec::with_capacity(2 * TEMPLATE.len());
    write(data, &mut page)?;
    Ok(page)
}

/// The page of what still goes on: it may ask where it came from for more, and nobody else.
fn live_page(json: &[u8]) -> Vec<u8> {
    let template = TEMPLATE.replacen("default-src 'none'", "default-src 'none'; connect-src 'self'", 1);
    let (before, after) = template.split_once(PLACE).unwrap_or((&template, ""));
    let mut page = [before, PLACE].concat().into_bytes();
    // Nothing fails that writes to memory.
    let _ = Harmless(&mut page).write_all(json);
    page.extend_from_slice(after.as_bytes());
    page
}

/// JSON on its way into a `<script>`.
struct Harmless<W>(W);

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        let mut pieces = json.split(|byte| *byte == b'<');
        self.0.write_all(pieces.next().unwrap_or_default())?;
        for piece in pieces {
            self.0.write_all(b"\\u003c")?;
            self.0.write_all(piece)?;
        }
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_has_one_place_for_data_and_stays_small() {
        assert_eq!(TEMPLATE.matches(PLACE).count(), 1);
        assert!(TEMPLATE.len() < 300_000, "{} bytes", TEMPLATE.len());
        assert!(TEMPLATE.contains("default-src 'none'; script-src 'sha256-"));
    }

    #[test]
    fn report_into_a_link_keeps_the_link() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("report.html", &link).unwrap();
        save(&link, &serde_json::json!({ "schema": "longhaul.run/1" })).unwrap();
        assert!(link.is_symlink() && folder.path().join("report.html").is_file());
    }

    #[test]
    fn no_name_ends_the_element_it_stands_in() {
        let names = ["</script><script>alert(1)</script>", "<!-- <script>", "]]>", "\u{2028}", "&lt;", "\\u003c"];
        let data = serde_json::json!({ "schema": "longhaul.run/1", "names": names });
        let page = String::from_utf8(page(&data).unwrap()).unwrap();
        assert_eq!(page.matches("</script").count(), TEMPLATE.matches("</script").count());
        let json = page.split_once(PLACE).unwrap().1.split_once("</script>").unwrap().0;
        assert!(!json.contains('<'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(json).unwrap(), data);
    }
}
