//! An S3 server over a directory whose first level holds the buckets. `s3s` runs in a separate thread.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub(super) const KEY: &str = "key";
pub(super) const SECRET: &str = "secret";

pub(super) struct S3 {
    directory: TempDir,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl S3 {
    /// Starts a server with one bucket, named `bucket`.
    pub(super) fn start() -> S3 {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("bucket")).unwrap();
        let mut service = S3ServiceBuilder::new(FileSystem::new(directory.path()).unwrap());
        service.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = service.build();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, mut stopped) = oneshot::channel::<()>();
        let serve = async move {
            loop {
                let socket = tokio::select! {
                    socket = listener.accept() => socket.unwrap().0,
                    _ = &mut stopped => return,
                };
                let http = hyper::server::conn::http1::Builder::new();
                let connection = http.serve_connection(TokioIo::new(socket), service.clone());
                tokio::spawn(connection);
            }
        };
        S3 {
            directory,
            address,
            stop: Some(stop),
            thread: Some(std::thread::spawn(move || runtime.block_on(serve))),
        }
    }

    pub(super) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the directory of the bucket.
    pub(super) fn bucket(&self) -> PathBuf {
        self.directory.path().join("bucket")
    }

    /// Writes an object with the key `key` into the bucket.
    pub(super) fn put(&self, key: &str, content: &[u8]) {
        let path = self.bucket().join(key);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}
