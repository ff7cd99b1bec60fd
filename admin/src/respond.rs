//! The answers to requests. Refuses to know sockets.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use crate::body::{Body, whole};
use crate::guard::{Guard, Refusal};
use crate::gzip;
use crate::live::{Coding, Live, VIEWERS_MAX};
use crate::observer::{Observation, Observer};
use crate::query::Query;
use crate::subject::Subject;

const PLAIN: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// The headers of every answer. Pages may load only what this port serves, and no page may contain them.
const HEADERS: [(&str, &str); 5] = [
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
];

/// The parts that answer the requests of one port.
pub(crate) struct Responder<S: Subject> {
    guard: Guard,
    observer: Arc<Observer<S>>,
    live: Live<S>,
}

impl<S: Subject> Responder<S> {
    pub(crate) fn new(guard: Guard, subject: S) -> Responder<S> {
        let observer = Arc::new(Observer::new(subject));
        Responder {
            guard,
            live: Live::new(Arc::clone(&observer)),
            observer,
        }
    }

    /// Returns the process with its latest observation.
    pub(crate) fn observer(&self) -> Arc<Observer<S>> {
        Arc::clone(&self.observer)
    }

    /// Answers one request. The body of the request is not read.
    pub(crate) async fn respond<B>(&self, request: &Request<B>) -> Response<Body> {
        let (method, path) = (request.method(), request.uri().path());
        let page = self.observer.page(path);
        // Probes of orchestrators cannot present a token, and the page asks for it.
        let is_open = matches!(path, "/livez" | "/readyz") || page.is_some();
        if let Err(refusal) = self.guard.check(method, request.headers(), is_open) {
            return refused(&refusal);
        }
        let response = match path {
            "/livez" => match self.observer.observe().await {
                Ok(_) => text(StatusCode::OK, "ok\n"),
                Err(reason) => unavailable(&reason),
            },
            "/readyz" => self.ready().await,
            "/metrics" => {
                self.shown(METRICS, |seen| self.observer.metrics(seen).into())
                    .await
            }
            "/api/v1/status" => self.shown(JSON, |seen| self.observer.status(seen)).await,
            "/api/v1/live" => self.live(request.headers()),
            _ => match page {
                Some(page) => response(StatusCode::OK, page.media_type, whole(page.content)),
                None => self.document(path, request.uri().query()).await,
            },
        };
        match *method == Method::HEAD {
            true => response.map(|_| whole("")),
            false => response,
        }
    }

    /// Answers with the live status, in gzip if the viewer reads gzip.
    fn live(&self, headers: &HeaderMap) -> Response<Body> {
        let coding = match gzip::is_accepted(headers) {
            true => Coding::Gzip,
            false => Coding::Identity,
        };
        let Some(events) = self.live.view(coding) else {
            return unavailable(&format!(
                "{VIEWERS_MAX} viewers receive the status already: close one of them"
            ));
        };
        let mut response = response(StatusCode::OK, EVENTS, events);
        if coding == Coding::Gzip {
            response
                .headers_mut()
                .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }

    async fn ready(&self) -> Response<Body> {
        let ready = match self.observer.observe().await {
            Ok(seen) => self.observer.ready(&seen),
            Err(reason) => Err(reason),
        };
        match ready {
            Ok(()) => text(StatusCode::OK, "ok\n"),
            Err(reason) => unavailable(&reason),
        }
    }

    /// Answers with a further document of the subject.
    async fn document(&self, path: &str, query: Option<&str>) -> Response<Body> {
        let seen = match self.observer.observe().await {
            Ok(seen) => seen,
            Err(reason) => return unavailable(&reason),
        };
        let query = Query::new(query.unwrap_or_default());
        match self.observer.document(&seen, path, query) {
            Ok(Some(document)) => response(StatusCode::OK, JSON, whole(document)),
            Err(reason) => text(StatusCode::BAD_REQUEST, format!("{reason}\n")),
            Ok(None) => text(
                StatusCode::NOT_FOUND,
                "there is no such page: see /metrics, /livez, /readyz and /api/v1/status\n",
            ),
        }
    }

    async fn shown(
        &self,
        media_type: &str,
        write: impl FnOnce(&Observation<S::Facts>) -> Bytes,
    ) -> Response<Body> {
        match self.observer.observe().await {
            Ok(seen) => response(StatusCode::OK, media_type, whole(write(&seen))),
            Err(reason) => unavailable(&reason),
        }
    }
}

fn refused(refusal: &Refusal) -> Response<Body> {
    let mut response = text(refusal.status(), format!("{}\n", refusal.text()));
    let header = match refusal {
        Refusal::Method => Some((header::ALLOW, "GET, HEAD")),
        Refusal::Token => Some((header::WWW_AUTHENTICATE, "Bearer")),
        Refusal::Host(_) | Refusal::CrossSite => None,
    };
    if let Some((name, value)) = header {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn unavailable(reason: &str) -> Response<Body> {
    text(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n"))
}

fn text(status: StatusCode, content: impl Into<Bytes>) -> Response<Body> {
    response(status, PLAIN, whole(content))
}

fn response(status: StatusCode, media_type: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    for (name, value) in HEADERS {
        let name = HeaderName::from_static(name);
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    if let Ok(media_type) = HeaderValue::from_str(media_type) {
        response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    }
    response
}
