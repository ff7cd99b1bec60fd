//! The dashboard: files that are a part of the program. They contain no data of a service, so they need
//! no token. Refuses to know the status, which the page reads from the API.

use millstream_admin::Page;

/// The media type of scripts.
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Returns the file of the dashboard at a path.
pub(super) fn page(path: &str) -> Option<Page> {
    let (media_type, content): (_, &'static [u8]) = match path {
        "/" => ("text/html; charset=utf-8", include_bytes!("dashboard/index.html")),
        "/dashboard.css" => (
            "text/css; charset=utf-8",
            include_bytes!("dashboard/dashboard.css"),
        ),
        "/dashboard.js" => (SCRIPT, include_bytes!("dashboard/dashboard.js")),
        "/pages.js" => (SCRIPT, include_bytes!("dashboard/pages.js")),
        "/charts.js" => (SCRIPT, include_bytes!("dashboard/charts.js")),
        "/elements.js" => (SCRIPT, include_bytes!("dashboard/elements.js")),
        _ => return None,
    };
    Some(Page { media_type, content })
}
