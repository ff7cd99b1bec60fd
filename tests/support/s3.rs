//! An S3 server over a directory, with one bucket: the library `s3s` on its own thread.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::JoinHandle;

use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The S3 server. Dropping the value ends the server.
pub(crate) struct S3 {
    directory: TempDir,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl S3 {
    /// Starts a server with a bucket named `bucket`.
    pub(crate) fn start() -> S3 {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("bucket")).expect("a bucket");
        let files = FileSystem::new(directory.path()).expect("a directory");
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single("key", "secret"));
        let service = service.build();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        let listener = runtime
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, mut stopped) = oneshot::channel::<()>();
        let serve = async move {
            loop {
                let socket = tokio::select! {
                    socket = listener.accept() => socket.expect("a connection").0,
                    _ = &mut stopped => return,
                };
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(socket), service.clone()));
            }
        };
        S3 {
            directory,
            address,
            stop: Some(stop),
            thread: Some(std::thread::spawn(move || runtime.block_on(serve))),
        }
    }

    /// Returns the bucket's directory.
    pub(crate) fn bucket(&self) -> PathBuf {
        self.directory.path().join("bucket")
    }

    /// Returns the environment variables with which a process reaches this server.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_ACCESS_KEY_ID", "key".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
            // The client must work over plain HTTP on a machine without root certificates.
            ("SSL_CERT_FILE", "/dev/null".to_owned()),
            ("SSL_CERT_DIR", "/nonexistent".to_owned()),
        ]
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || std::thread::panicking(),
                "the server of S3 panicked"
            );
        }
    }
}
