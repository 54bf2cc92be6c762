//! Checks an XML body before `dav-server` builds a tree of it.
//!
//! Building, copying and dropping the tree recurse, so a body of nested opening tags would overflow the stack and end
//! the process. The same parser reads it as a flat stream first, and bodies that nest deeper than any WebDAV client's
//! are refused. So are document types: WebDAV needs none, and entities can expand without bound (RFC 4918 §20.6).

use xml::reader::{EventReader, XmlEvent};

/// Maximum nesting depth. A lock owner or a property value may hold any XML, but not of any depth.
const DEEPEST: usize = 64;

/// A refused body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// A property's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) namespace: Option<String>,
    pub(crate) local: String,
}

/// Checks a body. Returns the property names of a `propfind` that names some.
pub(crate) fn inspect(body: &[u8]) -> Result<Option<Vec<Name>>, Refused> {
    let (mut depth, mut names) = (0, None::<Vec<_>>);
    for event in EventReader::new(body) {
        match event.map_err(|_| Refused)? {
            XmlEvent::StartElement { name, .. } => {
                match (depth, &mut names) {
                    (1, None) if name.local_name == "prop" => names = Some(Vec::new()),
                    (2, Some(names)) => names.push(Name { namespace: name.namespace, local: name.local_name }),
                    _ => {}
                }
                depth += 1;
                if depth > DEEPEST {
                    return Err(Refused);
                }
            }
            XmlEvent::EndElement { .. } => depth -= 1,
            XmlEvent::Doctype { .. } => return Err(Refused),
            _ => {}
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_bodies_pass() {
        let names = inspect(b"<propfind xmlns='DAV:'><prop><getetag/><b xmlns=''><c/></b></prop></propfind>");
        let name =
            |namespace: Option<&str>, local: &str| Name { namespace: namespace.map(Into::into), local: local.into() };
        assert_eq!(names, Ok(Some(vec![name(Some("DAV:"), "getetag"), name(None, "b")])));
        assert_eq!(inspect(b"<propfind xmlns='DAV:'><allprop/></propfind>"), Ok(None));
    }

    #[test]
    fn depth_bombs_and_broken_text_are_refused() {
        assert_eq!(inspect("<a>".repeat(DEEPEST + 1).as_bytes()), Err(Refused));
        assert_eq!(inspect(b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"), Err(Refused));
        assert_eq!(inspect(b"<a"), Err(Refused));
        assert_eq!(inspect(b"\xff\xfe\x00"), Err(Refused));
    }
}
