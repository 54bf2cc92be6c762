//! Writing a spec file: one block for each request, one line for each response.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use chrono::SecondsFormat;
use http::HeaderMap;
use toml::Value;
use units::Span;

use super::{HEAD_BYTES, Hold, Priority, Request, SCHEMA, Spec, SpecError, Until};
use crate::body::Body;

/// Writes the spec to `path`, and kept bodies into the folder of the same name beside it.
pub(super) fn write(spec: &Spec, path: &Path) -> Result<(), SpecError> {
    let failed = |path: &Path, source| SpecError::Write { path: path.display().to_string(), source };
    let folder = path.with_extension("");
    let name = folder.file_name().map_or_else(|| "bodies".into(), |name| name.to_string_lossy().into_owned());
    let folder = if folder == path { path.with_extension("bodies") } else { folder };
    let mut files: Vec<(PathBuf, &Body)> = Vec::new();
    let text = toml(spec, |file, body| {
        files.push((folder.join(&file), body));
        Some(format!("{name}/{file}"))
    });
    if !files.is_empty() {
        fs::create_dir_all(&folder).map_err(|error| failed(&folder, error))?;
    }
    for (file, body) in files {
        output::write(&file, |to| to.write_all(&body.part(0, usize::MAX))).map_err(|error| failed(&file, error))?;
    }
    output::write(path, |to| to.write_all(text.as_bytes())).map_err(|error| failed(path, error))
}

/// The spec as TOML. `keep` gets each kept body with a file name, and returns the path for the spec if it has written
/// the file.
pub(super) fn toml<'a>(spec: &'a Spec, mut keep: impl FnMut(String, &'a Body) -> Option<String>) -> String {
    let mut text = format!("schema = {}\ntitle = {}\n", quoted(SCHEMA), quoted(&spec.title));
    if let Some(source) = &spec.source {
        let _ = writeln!(text, "source = {}", quoted(source));
    }
    if let Some(time) = spec.recorded_at {
        let time = time.to_rfc3339_opts(SecondsFormat::Millis, true);
        let _ = writeln!(text, "recorded_at = {}", quoted(&time));
    }
    if !spec.compute.is_zero() {
        let _ = writeln!(text, "compute = {}", quoted(&Span(spec.compute).to_string()));
    }
    for (index, request) in spec.requests.iter().enumerate() {
        let entries = entries(spec, request, &mut |which, kind, body| keep(format!("{index:04}{which}.{kind}"), body));
        let _ = write!(text, "\n[[request]]\n{}\n", entries.join("\n"));
    }
    text
}

fn entries<'a>(
    spec: &Spec,
    request: &'a Request,
    keep: &mut dyn FnMut(&str, &str, &'a Body) -> Option<String>,
) -> Vec<String> {
    let mut lines = vec![format!("id = {}", quoted(&request.id))];
    if request.method != http::Method::GET {
        lines.push(format!("method = {}", quoted(request.method.as_str())));
    }
    if !request.secure {
        lines.push("scheme = \"http\"".to_owned());
    }
    lines.push(format!("host = {}", quoted(&request.host)));
    lines.push(format!("path = {}", quoted(&request.path)));
    lines.extend(request.connection.map(|number| format!("connection = {number}")));
    lines.push(format!("head = {}", request.head));
    lines.extend(headers(&request.headers, "\n"));
    lines.extend(body(&request.body, |body| keep("-sent", "bin", body)));
    if !request.after.is_empty() {
        let waits = request.after.iter().map(|after| {
            let id = quoted(&spec.requests[after.request].id);
            match after.until {
                Until::End => format!("{{ end = {id} }}"),
                Until::Head(HEAD_BYTES) => format!("{{ head = {id} }}"),
                Until::Head(bytes) => format!("{{ head = {id}, bytes = {bytes} }}"),
            }
        });
        lines.push(format!("after = [{}]", waits.collect::<Vec<_>>().join(", ")));
    }
    if !request.compute.is_zero() {
        lines.push(format!("compute = {}", quoted(&Span(request.compute).to_string())));
    }
    if let Some(Hold { priority, behind, compute }) = &request.hold {
        let priority = match priority {
            Priority::Medium => "medium",
            Priority::Low => "low",
        };
        let ids: Vec<String> = behind.iter().map(|index| quoted(&spec.requests[*index].id)).collect();
        let compute = Some(compute).filter(|time| !time.is_zero());
        let compute = compute.map_or(String::new(), |time| format!(", compute = {}", quoted(&Span(*time).to_string())));
        lines.push(format!("hold = {{ priority = \"{priority}\", behind = [{}]{compute} }}", ids.join(", ")));
    }
    if !request.delays_load {
        lines.push("delays_load = false".to_owned());
    }
    let response = &request.response;
    let mut inline = Vec::new();
    if response.status != http::StatusCode::OK {
        inline.push(format!("status = {}", response.status.as_u16()));
    }
    inline.extend(response.content_type.as_deref().map(|kind| format!("type = {}", quoted(kind))));
    inline.push(format!("head = {}", response.head));
    inline.extend(headers(&response.headers, ""));
    let ending = ending(response.content_type.as_deref().unwrap_or_default());
    inline.extend(body(&response.body, |body| keep("", ending, body)));
    if !response.think.is_zero() {
        inline.push(format!("think = {}", quoted(&Span(response.think).to_string())));
    }
    lines.push(format!("response = {{ {} }}", inline.join(", ")));
    lines
}

fn body<'a>(body: &'a Body, mut keep: impl FnMut(&'a Body) -> Option<String>) -> Option<String> {
    match body {
        _ if body.is_empty() => None,
        Body::Synthetic { len, .. } => Some(format!("body = {len}")),
        Body::Kept(bytes) => Some(match keep(body) {
            Some(file) => format!("file = {}", quoted(&file)),
            None => match std::str::from_utf8(bytes) {
                Ok(text) => format!("text = {}", quoted(text)),
                Err(_) => format!("body = {}", bytes.len()),
            },
        }),
    }
}

fn headers(headers: &HeaderMap, between: &str) -> Option<String> {
    let fields: Vec<String> = headers
        .iter()
        .map(|(name, value)| quoted(&format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))))
        .collect();
    let (before, after) = if between.is_empty() { ("", " ") } else { ("\n  ", ",\n") };
    match (fields.is_empty(), between.is_empty()) {
        (true, _) => None,
        (_, true) => Some(format!("headers = [{}]", fields.join(&format!(",{after}")))),
        (_, false) => Some(format!("headers = [{before}{}{after}]", fields.join(",\n  "))),
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The file extension for a content type.
fn ending(content_type: &str) -> &'static str {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    match kind {
        "text/html" => "html",
        "text/css" => "css",
        "text/javascript" | "application/javascript" => "js",
        "application/json" => "json",
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/svg+xml" => "svg",
        "image/webp" => "webp",
        "font/woff2" => "woff2",
        _ => "bin",
    }
}
