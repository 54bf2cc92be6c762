//! Results and explanations as one HTML file, which opens from disk, without a server and without a network.
//!
//! The file is a **template**, built from `web/` and embedded here: script and style, and an empty element for data. To
//! write a report is to put JSON into that element. The script chooses the view by the field `schema`; this crate knows
//! no schema, so it can show any data without importing its types.
//!
//! ```text
//! web/src/*.ts ── npm run build ──> src/template.html ─┐
//! any serialisable data with a `schema` ───────────────┴─ write ──> report.html
//! ```
//!
//! [`live`] serves such a page while more data is to come.
//!
//! **Why is the built template in the repository?** Building `haul` needs cargo, but not node. `make lint` rebuilds the
//! template where node is installed, and fails if it differs.
//!
//! **How are hostile names handled?** A file may be called `</script><script>…`, and a server sends what it likes. In
//! JSON, `<` occurs only in strings, where `\u003c` means the same. With every `<` written so, no data can end the
//! element that holds it. The script then creates text nodes from the data, never markup. If something slipped through
//! both, the Content Security Policy runs only the template's own script, whose hash it names, and blocks all requests.
//!
//! ```
//! let html = report::render(&serde_json::json!({ "schema": "longhaul.run/1", "title": "</script>" }))?;
//! assert!(String::from_utf8_lossy(&html).contains(r"\u003c/script>"));
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod live;

use std::{
    io::{self, Write},
    path::Path,
};

use serde::Serialize;

/// The report without data.
const TEMPLATE: &str = include_str!("template.html");

/// The start of the element that holds the data.
const DATA_ELEMENT: &str = r#"<script type="application/json" id="data">"#;

/// Writes the report of `data`, which needs a field `schema`: `longhaul.run/1`, `longhaul.view/1`, …. Fails if `data`
/// cannot be serialised or `out` cannot be written to.
pub fn write(data: &impl Serialize, mut out: impl Write) -> io::Result<()> {
    let (before, after) = TEMPLATE.split_once(DATA_ELEMENT).unwrap_or((TEMPLATE, ""));
    out.write_all(before.as_bytes())?;
    out.write_all(DATA_ELEMENT.as_bytes())?;
    serde_json::to_writer(Escaped(&mut out), data)?;
    out.write_all(after.as_bytes())
}

/// A report that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the report to {path}: {why}; free some space or choose another folder")]
pub struct SaveError {
    path: String,
    why: io::Error,
}

/// Writes the report of `data` to the file `path`, by the rules of [`output::write`].
pub fn save(path: &Path, data: &impl Serialize) -> Result<(), SaveError> {
    output::write(path, |to| write(data, to)).map_err(|why| SaveError { path: path.display().to_string(), why })
}

/// The report of `data` as bytes: see [`write()`].
pub fn render(data: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut html = Vec::with_capacity(2 * TEMPLATE.len());
    write(data, &mut html)?;
    Ok(html)
}

/// The live report of `json`. It may send requests to its own server, and to no other.
fn live_page(json: &[u8]) -> Vec<u8> {
    let template = TEMPLATE.replacen("default-src 'none'", "default-src 'none'; connect-src 'self'", 1);
    let (before, after) = template.split_once(DATA_ELEMENT).unwrap_or((&template, ""));
    let mut page = [before, DATA_ELEMENT].concat().into_bytes();
    // Writing to memory does not fail.
    let _ = Escaped(&mut page).write_all(json);
    page.extend_from_slice(after.as_bytes());
    page
}

/// Escapes JSON for a `<script>` element.
struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
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
    fn template_has_one_data_element_and_stays_small() {
        assert_eq!(TEMPLATE.matches(DATA_ELEMENT).count(), 1);
        assert!(TEMPLATE.len() < 300_000, "{} bytes", TEMPLATE.len());
        assert!(TEMPLATE.contains("default-src 'none'; script-src 'sha256-"));
    }

    #[test]
    fn save_keeps_symbolic_link() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("report.html", &link).unwrap();
        save(&link, &serde_json::json!({ "schema": "longhaul.run/1" })).unwrap();
        assert!(link.is_symlink() && folder.path().join("report.html").is_file());
    }

    #[test]
    fn hostile_names_do_not_end_the_data_element() {
        let names = ["</script><script>alert(1)</script>", "<!-- <script>", "]]>", "\u{2028}", "&lt;", "\\u003c"];
        let data = serde_json::json!({ "schema": "longhaul.run/1", "names": names });
        let page = String::from_utf8(render(&data).unwrap()).unwrap();
        assert_eq!(page.matches("</script").count(), TEMPLATE.matches("</script").count());
        let json = page.split_once(DATA_ELEMENT).unwrap().1.split_once("</script>").unwrap().0;
        assert!(!json.contains('<'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(json).unwrap(), data);
    }
}
