//! The names under which each object store's client finds its credentials. Pure: contains no values.

/// An object store, with the places of its credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Store {
    /// The scheme of the store's URLs, which also names the check.
    pub(super) scheme: &'static str,
    /// The environment variables that suffice. Each list is one alternative, whose variables are all needed.
    /// A list counts as begun if its first variable is set.
    pub(super) alternatives: &'static [&'static [&'static str]],
    /// The variables of `alternatives` that contain the path of a file.
    pub(super) paths: &'static [&'static str],
    /// The well-known files below the home directory that the client reads.
    pub(super) files_read: &'static [&'static str],
    /// The well-known files of other tools, which the client does not read.
    pub(super) files_ignored: &'static [&'static str],
}

/// All stores.
pub(super) const STORES: [Store; 3] = [
    Store {
        scheme: "s3",
        alternatives: &[
            &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"],
            &["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"],
            &["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"],
            &["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"],
            &["AWS_CONTAINER_CREDENTIALS_FULL_URI"],
            &["AWS_SKIP_SIGNATURE"],
        ],
        paths: &["AWS_WEB_IDENTITY_TOKEN_FILE"],
        files_read: &[],
        files_ignored: &[".aws/credentials"],
    },
    Store {
        scheme: "gs",
        alternatives: &[
            &["GOOGLE_APPLICATION_CREDENTIALS"],
            &["GOOGLE_SERVICE_ACCOUNT"],
            &["GOOGLE_SERVICE_ACCOUNT_PATH"],
            &["GOOGLE_SERVICE_ACCOUNT_KEY"],
            &["GOOGLE_BEARER_TOKEN"],
            &["GOOGLE_SKIP_SIGNATURE"],
        ],
        paths: &[
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_SERVICE_ACCOUNT",
            "GOOGLE_SERVICE_ACCOUNT_PATH",
        ],
        files_read: &[".config/gcloud/application_default_credentials.json"],
        files_ignored: &[],
    },
    Store {
        scheme: "az",
        alternatives: &[
            &["AZURE_STORAGE_ACCOUNT_KEY"],
            &["AZURE_STORAGE_ACCESS_KEY"],
            &["AZURE_STORAGE_SAS_TOKEN"],
            &["AZURE_STORAGE_SAS_KEY"],
            &["AZURE_STORAGE_TOKEN"],
            &["AZURE_CLIENT_SECRET", "AZURE_CLIENT_ID", "AZURE_TENANT_ID"],
            &["AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_ID", "AZURE_TENANT_ID"],
            &["AZURE_USE_AZURE_CLI"],
            &["AZURE_SKIP_SIGNATURE"],
        ],
        paths: &["AZURE_FEDERATED_TOKEN_FILE"],
        files_read: &[],
        files_ignored: &[".azure/msal_token_cache.json"],
    },
];

impl Store {
    /// Returns the names of all variables, each once.
    pub(super) fn variables(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.alternatives.concat();
        names.sort_unstable();
        names.dedup();
        names
    }
}
