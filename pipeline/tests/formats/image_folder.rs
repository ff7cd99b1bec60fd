//! Tests of folders of labelled files.

use std::path::Path;

use millstream_element::Dtype;
use millstream_pipeline::graph::{Dataset, ImageFolder, OnError};

use crate::support::files::{Flat, elements, failure, survives};

fn write(root: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

fn element(root: &Path, path: &str, label: i64, content: &str) -> Vec<Flat> {
    let path = format!("{}/{path}", root.display());
    vec![
        (Dtype::Bytes, vec![], vec![content.as_bytes().to_vec()]),
        (Dtype::I64, vec![], vec![label.to_le_bytes().to_vec()]),
        (Dtype::String, vec![], vec![path.into_bytes()]),
    ]
}

#[test]
fn files_have_their_classes_numbers() {
    let directory = tempfile::tempdir().unwrap();
    // Characters that would form a glob pattern have no special meaning in the name of the folder.
    let root = directory.path().join("set [1]");
    let files = [
        ("dog/a.JPG", "1"),
        ("dog/deep/er/b.png", "2"),
        ("cat/c.jpeg", "3"),
        ("cat/notes.txt", "no image"),
        ("Zebra/d.webp", "4"),
        ("stray.jpg", "in no folder"),
    ];
    write(&root, &files);
    let graph = |folder| Dataset::image_folder(folder).graph().unwrap();
    let expected = [
        element(&root, "Zebra/d.webp", 0, "4"),
        element(&root, "cat/c.jpeg", 1, "3"),
        element(&root, "dog/a.JPG", 2, "1"),
        element(&root, "dog/deep/er/b.png", 2, "2"),
    ];
    let folder = ImageFolder::new(format!("{}/", root.display()));
    assert_eq!(elements(&graph(folder.clone())), expected);
    let texts = ImageFolder {
        extensions: vec!["TXT".to_owned()],
        classes: vec!["dog".to_owned(), "cat".to_owned()],
        ..folder
    };
    assert_eq!(
        elements(&graph(texts)),
        [element(&root, "cat/notes.txt", 1, "no image")]
    );
}

#[test]
fn an_unnamed_classs_file_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &[("a/1.png", "1"), ("b/2.png", "2")]);
    let folder = ImageFolder {
        classes: vec!["a".to_owned()],
        ..ImageFolder::new(directory.path().to_str().unwrap())
    };
    let (before, message) = failure(Dataset::image_folder(folder.clone()));
    assert_eq!(before, 1);
    assert!(
        message.contains("expected a file in the folder of a class") && message.contains("b/2.png"),
        "{message}"
    );
    let skipping = ImageFolder {
        on_error: OnError::Skip,
        ..folder
    };
    assert!(survives(Dataset::image_folder(skipping)));
}
