//! A server's answer about many resources (RFC 4918 §13), as it comes in.
//!
//! A folder of 100,000 files is an answer of 50 MB. It is read in the pieces it arrives in, and each response is
//! handed on when it is whole, so neither the answer nor the list is ever in memory, and the first files are on
//! their way before the last are known. The same document stands in answers to PROPFIND, PROPPATCH and REPORT, and
//! in those to DELETE, COPY, MOVE and LOCK that failed for some of what they were to reach (with 207; from Apache
//! with 424 too).
//!
//! A truncated answer is an error. A list that ends early without one would make a mirror delete what it did not
//! see.

use std::mem;

use http::StatusCode;

use crate::{
    path::{PathError, RemotePath},
    precondition_codes::UnmetCondition,
    properties::Properties,
    qnames::{Element, ElementPath, QName},
    xml::{self, Sink, XmlError, XmlProblem},
};

/// Bytes of text and names in one response.
const LARGEST: usize = 1024 * 1024;

/// An answer that is being read.
#[derive(Debug)]
pub struct Multistatus {
    document: xml::Document,
    reading: Reading,
    failed: Option<XmlError>,
}

/// What stands in an answer, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A resource.
    Entry(Box<Entry>),
    /// A resource that cannot be here by this name, or that was not asked for. It is left out; the others stand.
    Misplaced(PathError),
}

/// What an answer says of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it is. A folder's if its properties say so, or else if its href ends with `/`.
    pub path: RemotePath,
    /// The outcome for the whole of it, where the answer is about what was done to it. In a `sync-collection` 404
    /// means that it is gone, and 507 of the folder itself that the list goes on (RFC 6578 §3.6).
    pub status: Option<StatusCode>,
    /// The properties that it has.
    pub properties: Properties,
    /// The properties that could not be had or set, but for those that it just does not have (404).
    pub refused: Vec<(QName, StatusCode)>,
    /// The conditions that were not met. Where one response is about many resources, they stand with the first.
    pub conditions: Vec<UnmetCondition>,
    /// What the server says about it in words.
    pub description: Option<String>,
}

/// What stands behind all entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct End {
    /// The state for the next `sync-collection` (RFC 6578 §6.4).
    pub sync_token: Option<String>,
    /// What the server says in words.
    pub description: Option<String>,
}

#[derive(Debug)]
struct Reading {
    asked: RemotePath,
    destination: Option<RemotePath>,
    trail: ElementPath,
    response: Response,
    /// The size of the response so far.
    size: usize,
    found: Vec<Item>,
    end: End,
}

#[derive(Debug, Default)]
struct Response {
    hrefs: Vec<String>,
    status: Option<StatusCode>,
    properties: Properties,
    refused: Vec<(QName, StatusCode)>,
    conditions: Vec<UnmetCondition>,
    description: Option<String>,
    propstat: Propstat,
}

#[derive(Debug, Default)]
struct Propstat {
    /// The properties before this part, to which to return if it is about those that are not there.
    before: Properties,
    names: Vec<QName>,
    status: Option<StatusCode>,
}

impl Multistatus {
    /// Begins to read an answer to a request for `asked`. What is not `asked` or below it is misplaced.
    pub fn new(asked: RemotePath) -> Self {
        let reading = Reading {
            asked,
            destination: None,
            trail: ElementPath::default(),
            response: Response::default(),
            size: 0,
            found: Vec::new(),
            end: End::default(),
        };
        Self { document: xml::Document::default(), reading, failed: None }
    }

    /// The same for COPY and MOVE, whose answers speak of either place.
    #[must_use]
    pub fn or_below(mut self, destination: RemotePath) -> Self {
        self.reading.destination = Some(destination);
        self
    }

    /// Takes the next bytes; what they complete. After an error there is no more to come.
    pub fn feed(&mut self, piece: &[u8]) -> impl Iterator<Item = Result<Item, XmlError>> + '_ {
        let mut failure = None;
        if self.failed.is_none()
            && let Err(error) = self.document.feed(piece, &mut self.reading)
        {
            failure = Some(Err(error.clone()));
            self.failed = Some(error);
        }
        self.reading.found.drain(..).map(Ok).chain(failure)
    }

    /// All bytes are in: what stands behind the entries, or an error if some are missing.
    pub fn finish(self) -> Result<End, XmlError> {
        self.failed.map_or_else(|| self.document.finish(), Err)?;
        Ok(self.reading.end)
    }
}

impl Reading {
    fn grow(&mut self, by: usize) -> Result<(), XmlProblem> {
        self.size += by;
        if self.size > LARGEST { Err(XmlProblem::Large) } else { Ok(()) }
    }

    fn close_propstat(&mut self) {
        let response = &mut self.response;
        let propstat = mem::take(&mut response.propstat);
        // Some servers leave out what can only be a success.
        let Some(status) = propstat.status.filter(|status| !status.is_success()) else { return };
        response.properties = propstat.before;
        if status != StatusCode::NOT_FOUND {
            response.refused.extend(propstat.names.into_iter().map(|name| (name, status)));
        }
    }

    fn place(&self, href: &str) -> Result<RemotePath, PathError> {
        RemotePath::from_href(href, &self.asked).or_else(|error| {
            let there = self.destination.as_ref().and_then(|asked| RemotePath::from_href(href, asked).ok());
            there.ok_or(error)
        })
    }

    fn close_response(&mut self) {
        let mut response = mem::take(&mut self.response);
        if response.hrefs.is_empty() {
            response.hrefs.push(String::new());
        }
        // One status may be for many hrefs, but properties are for one (RFC 4918 §14.24). So is all that takes room,
        // or else an answer of many hrefs and conditions would grow to their product.
        for href in &response.hrefs {
            self.found.push(match self.place(href) {
                Err(error) => Item::Misplaced(error),
                Ok(path) => {
                    let folder = response.properties.collection.unwrap_or(path.is_folder());
                    Item::Entry(Box::new(Entry {
                        path: path.as_folder(folder),
                        status: response.status,
                        properties: mem::take(&mut response.properties),
                        refused: mem::take(&mut response.refused),
                        conditions: mem::take(&mut response.conditions),
                        description: mem::take(&mut response.description),
                    }))
                }
            });
        }
    }
}

impl Sink for Reading {
    fn open(&mut self, namespace: &str, local: &str) -> Result<(), XmlProblem> {
        let tag = Element::of(namespace, local);
        let response = &mut self.response;
        match (self.trail.path.as_slice(), tag) {
            ([], Element::Multistatus) => {}
            ([], _) => return Err(XmlProblem::Root(local.to_owned())),
            ([Element::Multistatus], Element::Response) => {
                *response = Response::default();
                self.size = 0;
            }
            ([Element::Multistatus, Element::Response], Element::Propstat) => {
                response.propstat = Propstat { before: response.properties.clone(), ..Propstat::default() };
            }
            ([Element::Multistatus, Element::Response, Element::Propstat, Element::Prop, within @ ..], _) => {
                if within.is_empty() {
                    response.propstat.names.push(QName::new(tag, namespace, local));
                }
                response.properties.open(within, tag);
            }
            (
                [Element::Multistatus, Element::Response, Element::Error] | [.., Element::Propstat, Element::Error],
                _,
            ) => {
                response.conditions.push(UnmetCondition::new(local));
            }
            _ => {}
        }
        self.trail.open(tag);
        // An element takes room besides its names: an empty name must not be free.
        self.grow(namespace.len() + local.len() + 64)
    }

    fn text(&mut self, text: &str) -> Result<(), XmlProblem> {
        let before = self.trail.text.len();
        self.trail.text(text)?;
        self.grow(self.trail.text.len() - before)
    }

    fn close(&mut self) -> Result<(), XmlProblem> {
        let text = self.trail.text.trim();
        let response = &mut self.response;
        let some = || Some(text.to_owned()).filter(|text| !text.is_empty());
        match self.trail.path.as_slice() {
            [Element::Multistatus, Element::SyncToken] => self.end.sync_token = some(),
            [Element::Multistatus, Element::Description] => self.end.description = some(),
            [Element::Multistatus, Element::Response, Element::Href] => response.hrefs.push(text.to_owned()),
            [Element::Multistatus, Element::Response, Element::Status] => response.status = status(text)?,
            [Element::Multistatus, Element::Response, Element::Propstat, Element::Status] => {
                response.propstat.status = status(text)?;
            }
            [Element::Multistatus, Element::Response, Element::Description]
            | [Element::Multistatus, Element::Response, Element::Propstat, Element::Description] => {
                response.description = some();
            }
            [Element::Multistatus, Element::Response, Element::Propstat, Element::Prop, place @ ..] => {
                response.properties.close(place, text);
            }
            [Element::Multistatus, Element::Response, .., Element::Error, _, Element::Href] => {
                response.conditions.last_mut().into_iter().for_each(|last| last.hrefs.push(text.to_owned()));
            }
            [Element::Multistatus, Element::Response, Element::Propstat] => self.close_propstat(),
            [Element::Multistatus, Element::Response] => self.close_response(),
            _ => {}
        }
        self.trail.close();
        if self.trail.path.len() == 1 {
            self.size = 0;
        }
        Ok(())
    }
}

/// The status in a line such as `HTTP/1.1 200 OK`, however much of it there is; none if it is empty.
fn status(line: &str) -> Result<Option<StatusCode>, XmlProblem> {
    let code = line.split_whitespace().find_map(|word| (word.len() == 3).then(|| word.parse().ok())?);
    if code.is_none() && !line.is_empty() { Err(XmlProblem::Status(line.to_owned())) } else { Ok(code) }
}

#[cfg(test)]
mod tests;
